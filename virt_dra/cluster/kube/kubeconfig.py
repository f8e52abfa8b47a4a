"""Kubeconfigs: read by the ``kubernetes`` package, as are the credentials that they name. What it leaves open (which of
several files, what is wrong with one, credentials that expire) is decided here."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_kube_config

from virt_dra.cluster.kube.access import Credentials, Endpoint, tls_context
from virt_dra.cluster.kube.errors import ConnectionProblem
from virt_dra.cluster.port import Unauthorized

log = logging.getLogger(__name__)

_RENEWAL_PAUSE = 10.0
"""Seconds between two readings of refused credentials: an exec plugin may be slow, and a dead account stays dead."""


class KubeconfigAccess:
    """:class:`~virt_dra.cluster.kube.access.Access` by a context of a kubeconfig."""

    def __init__(self, configuration: Configuration, source: str, path: str, context: str | None) -> None:
        """Raises :class:`ConnectionProblem`."""
        self.source = source
        self._path, self._context = path, context
        self._configuration, self._endpoint = configuration, _endpoint(configuration, source)
        self._credentials = _content(configuration)
        self._renewal = asyncio.Lock()
        self._renewed_at: float | None = None
        self._changed = False
        """Whether the last renewal brought other credentials."""

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    async def authorization(self) -> str | None:
        try:
            settings = await self._configuration.auth_settings()
        except (ConfigException, OSError) as error:
            raise Unauthorized(f"the credentials can't be read: {error}") from error
        return settings.get("BearerToken", {}).get("value") or None

    async def renewed(self) -> bool:
        loop = asyncio.get_running_loop()
        async with self._renewal:
            if self._renewed_at is None or loop.time() - self._renewed_at >= _RENEWAL_PAUSE:
                self._renewed_at, self._changed = loop.time(), await self._reload()
            return self._changed  # also for requests that were refused at the same time and waited here

    async def credentials(self) -> Credentials:
        scheme, _, token = (await self.authorization() or "").partition(" ")
        used = self._configuration
        return Credentials(
            server=str(used.host),
            verify=bool(used.verify_ssl),
            ca_file=used.ssl_ca_cert,
            certificate_file=used.cert_file,
            key_file=used.key_file,
            token=token if scheme == "Bearer" else None,
        )

    async def _reload(self) -> bool:
        configuration = _configuration()
        try:
            await _load(self._path, self._context, configuration)
            credentials = await asyncio.to_thread(_content, configuration)
            if credentials == self._credentials:
                return False
            endpoint = _endpoint(configuration, self.source)
        except (ConfigException, OSError, yaml.YAMLError, ConnectionProblem) as error:
            log.warning("the credentials of %s can't be reloaded: %s", self.source, error)
            return False
        self._configuration, self._endpoint, self._credentials = configuration, endpoint, credentials
        return True


async def kubeconfig_access(path: str, context: str | None, origin: str) -> KubeconfigAccess:
    """``path``: as $KUBECONFIG, several are one. ``origin``: who named it. Raises :class:`ConnectionProblem`."""
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
    return KubeconfigAccess(configuration, f'{source}, context "{chosen}"', path, context)


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
    return configuration


def _content(configuration: Configuration) -> tuple[object, ...]:
    """Tokens and the content of certificates, to be compared."""
    files = (configuration.cert_file, configuration.key_file, configuration.ssl_ca_cert)
    return dict(configuration.api_key), *(Path(file).read_bytes() if file else b"" for file in files)


def _endpoint(configuration: Configuration, source: str) -> Endpoint:
    """Raises :class:`ConnectionProblem`."""
    server = str(configuration.host).rstrip("/")
    tls = tls_context(
        source,
        ca_file=configuration.ssl_ca_cert,
        ca_data=configuration.ca_cert_data,
        certificate_file=configuration.cert_file,
        key_file=configuration.key_file,
        verify=bool(configuration.verify_ssl) and not server.startswith("http:"),  # without TLS nobody is verified
    )
    return Endpoint(
        server,
        tls,
        configuration.tls_server_name or "",
        configuration.proxy or "",
        configuration.proxy_headers or {},
    )
