"""The way to a cluster: which configuration is used, and the client made of it. Reading kubeconfigs and credentials is
the ``kubernetes`` package's; what it leaves open (which file, what is wrong with it, credentials that expire) is
decided here."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.aio.config.incluster_config import SERVICE_HOST_ENV_NAME, SERVICE_TOKEN_FILENAME

from virt_dra.cluster.kube.errors import ConnectionProblem
from virt_dra.cluster.port import Unauthorized

log = logging.getLogger(__name__)

USER_AGENT = f"virt-dra/{version('virt-dra')}"

_RENEWAL_PAUSE = 10.0
"""Seconds between two readings of refused credentials: an exec plugin may be slow, and a dead account stays dead."""


class Access:
    """A client, and where its configuration came from: ``source`` is the phrase for messages (``kubeconfig /x/y,
    context "z"``)."""

    def __init__(self, client: ApiClient, source: str, path: str = "", context: str | None = None) -> None:
        """``path`` and ``context`` of the kubeconfig, if it is one."""
        self.client, self.source = client, source
        self._path, self._context = path, context
        self._credentials = _credentials(client.configuration)
        self._renewal = asyncio.Lock()
        self._renewed_at: float | None = None
        self._changed = False
        """Whether the last renewal brought other credentials."""

    async def renewed(self) -> bool:
        """Reload the credentials; True if the request should be retried. For the service account the package does it by
        the clock."""
        if not self._path:
            return False
        loop = asyncio.get_running_loop()
        async with self._renewal:
            if self._renewed_at is None or loop.time() - self._renewed_at >= _RENEWAL_PAUSE:
                self._renewed_at, self._changed = loop.time(), await self._reload()
            return self._changed  # also for requests that were refused at the same time and waited here

    async def _reload(self) -> bool:
        configuration = _configuration()
        try:
            await _load(self._path, self._context, configuration)
            credentials = await asyncio.to_thread(_credentials, configuration)
            if credentials == self._credentials:
                return False
            fresh = _client(configuration, self.source)
        except (ConfigException, OSError, yaml.YAMLError, ConnectionProblem) as error:
            log.warning("the credentials of %s can't be reloaded: %s", self.source, error)
            return False
        # The client stays the same for those who hold it. Its connections know the old certificate; watches on them are
        # restarted.
        stale, self.client.rest_client = self.client.rest_client, fresh.rest_client
        self.client.configuration, self._credentials = configuration, credentials
        await stale.close()
        return True


@dataclass(frozen=True)
class Credentials:
    """How to reach a server, and as whom: files that exist, and a token without its scheme. ``None``: not used."""

    server: str
    verify: bool
    ca_file: str | None
    certificate_file: str | None
    key_file: str | None
    token: str | None


async def credentials_of(client: ApiClient) -> Credentials:
    """Raises :class:`~virt_dra.cluster.port.Unauthorized` where they can't be read."""
    used = client.configuration
    try:
        settings = await used.auth_settings()
    except (ConfigException, OSError) as error:
        raise Unauthorized(f"the credentials can't be read: {error}") from error
    scheme, _, token = str(settings.get("BearerToken", {}).get("value") or "").partition(" ")
    return Credentials(
        server=str(used.host),
        verify=bool(used.verify_ssl),
        ca_file=used.ssl_ca_cert,
        certificate_file=used.cert_file,
        key_file=used.key_file,
        token=token if scheme.lower() == "bearer" else None,  # in a pod the package writes it small
    )


async def found_access(kubeconfig: str | None, context: str | None, environ: Mapping[str, str] = os.environ) -> Access:
    """Raises :class:`ConnectionProblem` (NoConfiguration, BadConfiguration)."""
    for path, origin in _candidates(kubeconfig, environ):
        if path:
            return await _from_kubeconfig(path, context, origin)
    if environ.get(SERVICE_HOST_ENV_NAME) and Path(SERVICE_TOKEN_FILENAME).exists():
        if context:
            raise ConnectionProblem(
                "NoConfiguration", f'a pod\'s service account has no contexts: "{context}" needs a kubeconfig'
            )
        configuration = _configuration()
        try:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # the package has no types here
        except (ConfigException, OSError) as error:
            raise ConnectionProblem("BadConfiguration", f"the pod's service account can't be used: {error}") from error
        return Access(_client(configuration, "the pod's service account"), "the pod's service account")
    raise ConnectionProblem(
        "NoConfiguration",
        "no cluster is configured: neither $KUBECONFIG nor ~/.kube/config is there, and this is no pod with a service "
        "account. Give --kubeconfig FILE or set KUBECONFIG",
    )


def _candidates(kubeconfig: str | None, environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Path (or several, joined as in $KUBECONFIG; empty if there is none) and where it was named."""
    usual = Path(environ.get("HOME") or "~").expanduser() / ".kube" / "config"
    return (
        (kubeconfig or "", "given"),
        (environ.get("KUBECONFIG", ""), "$KUBECONFIG"),
        (str(usual) if usual.exists() else "", "default"),
    )


async def _from_kubeconfig(path: str, context: str | None, origin: str) -> Access:
    source = f"kubeconfig {path}"
    parts = [Path(part).expanduser() for part in path.split(os.pathsep) if part]
    if not any(part.exists() for part in parts):
        hint = "check the path" if origin == "given" else f"{origin} names it: check the path, or unset it"
        raise ConnectionProblem("NoConfiguration", f"{source} does not exist: {hint}")
    configuration = _configuration()
    try:
        loader = await _load(path, context, configuration)
        chosen = str(loader.current_context["name"])
    except (ConfigException, OSError, yaml.YAMLError, ValueError) as error:
        raise ConnectionProblem("BadConfiguration", f"{source} can't be used: {_known(error, context)}") from error
    except (AttributeError, KeyError, TypeError) as error:  # what the library raises for YAML of another shape
        raise ConnectionProblem("BadConfiguration", f"{source} can't be used: it isn't a kubeconfig") from error
    source = f'{source}, context "{chosen}"'
    return Access(_client(configuration, source), source, path, context)


async def _load(path: str, context: str | None, configuration: Configuration) -> Any:
    """Fills ``configuration``. Gives the package's loader, which has no types."""
    return await load_kube_config(  # type: ignore[no-untyped-call]  # the package has no types here
        config_file=path, context=context, client_configuration=configuration, persist_config=False
    )


def _known(error: Exception, context: str | None) -> str:
    if context and "contexts" in str(error):
        return f'it has no context "{context}"; kubectl config get-contexts shows those it has'
    return str(error)


def _configuration() -> Configuration:
    # Not through the library's defaults, which are one for the whole process.
    configuration: Configuration = type.__call__(Configuration)
    # As Go's clients: many clusters' certificates lack what RFC 5280 asks of a CA, and Python 3.13 would refuse them.
    configuration.disable_strict_ssl_verification = True
    return configuration


def _credentials(configuration: Configuration) -> tuple[object, ...]:
    """Tokens and the content of certificates, to be compared."""
    files = (configuration.cert_file, configuration.key_file, configuration.ssl_ca_cert)
    return dict(configuration.api_key), *(Path(file).read_bytes() if file else b"" for file in files)


def _client(configuration: Configuration, source: str) -> ApiClient:
    try:
        client = ApiClient(configuration=configuration)
    except OSError as error:  # ssl.SSLError among them
        raise ConnectionProblem("BadConfiguration", f"the certificates of {source} can't be used: {error}") from error
    client.user_agent = USER_AGENT
    return client
