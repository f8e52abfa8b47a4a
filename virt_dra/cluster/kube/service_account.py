"""The account of the pod that this process runs in: its token, which the kubelet replaces before it expires, and the
authority of the cluster's certificates. The address comes from the environment of every container."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from virt_dra.cluster.kube.access import Credentials, Endpoint, tls_context
from virt_dra.cluster.kube.errors import ConnectionProblem
from virt_dra.cluster.port import Unauthorized

FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST: Final = "KUBERNETES_SERVICE_HOST"
PORT: Final = "KUBERNETES_SERVICE_PORT"
SOURCE: Final = "the pod's service account"
TOKEN_SECONDS: Final = 60.0
"""How long a token that was read is used, as in Go's clients: it may be revoked when its successor is there."""


class ServiceAccountAccess:
    """:class:`~virt_dra.cluster.kube.access.Access` of a pod."""

    source = SOURCE

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        """Raises :class:`ConnectionProblem`."""
        self._ca_file, self._token_file = folder / "ca.crt", folder / "token"
        host, port = environ.get(HOST, ""), environ.get(PORT, "")
        if not host or not port:
            raise _unusable(f"${HOST} and ${PORT} must name the API server")
        try:
            self._token, self._read_at = _content(self._token_file), asyncio.get_running_loop().time()
            authority = _content(self._ca_file)
        except OSError as error:
            raise _unusable(str(error)) from error
        self._endpoint = Endpoint(f"https://{_in_url(host)}:{port}", tls_context(SOURCE, ca_data=authority))

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    async def authorization(self) -> str | None:
        if asyncio.get_running_loop().time() - self._read_at >= TOKEN_SECONDS:
            self._read_token()
        return f"Bearer {self._token}"

    async def renewed(self) -> bool:
        before = self._token
        try:
            self._read_token()
        except Unauthorized:
            return False
        return self._token != before

    async def credentials(self) -> Credentials:
        await self.authorization()
        return Credentials(self._endpoint.server, True, str(self._ca_file), None, None, self._token)

    def _read_token(self) -> None:
        try:
            self._token = _content(self._token_file)
        except OSError as error:
            raise Unauthorized(f"the credentials can't be read: {error}") from error
        self._read_at = asyncio.get_running_loop().time()


def pod_account(environ: Mapping[str, str]) -> ServiceAccountAccess | None:
    """None outside of a pod, and in one without an account. Raises :class:`ConnectionProblem`."""
    if not environ.get(HOST) or not (FOLDER / "token").exists():
        return None
    return ServiceAccountAccess(environ, FOLDER)


def _content(file: Path) -> str:
    """Never empty. Raises OSError."""
    text = file.read_text(encoding="ascii", errors="replace").strip()
    if not text:
        raise OSError(f"{file} is empty")
    return text


def _in_url(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host


def _unusable(why: str) -> ConnectionProblem:
    return ConnectionProblem("BadConfiguration", f"{SOURCE} can't be used: {why}")
