"""Requests with a stolen token: as one of our ServiceAccounts, of a real API server."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

from devtools.cluster.control_plane import ControlPlane

Json = dict[str, Any]
_DRY: Json = {"dryRun": ["All"]}
"""The body of a DELETE: with another one the API server doesn't look at the parameter of the URL."""
JSON_PATCH, MERGE = "application/json-patch+json", "application/merge-patch+json"


@contextlib.contextmanager
def acting_as(plane: ControlPlane, kubeconfig: Path) -> Iterator[Callable[..., tuple[int, str]]]:
    """Requests of an account, dry runs all of them: should one be allowed, nothing comes of it. The text of a watch
    that is allowed isn't waited for."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    connection = http.client.HTTPSConnection(plane.server.removeprefix("https://"), context=context, timeout=30)

    def ask(verb: str, path: str, body: Any = None, content: str = MERGE) -> tuple[int, str]:
        content = content if verb == "PATCH" else "application/json"
        head = {"Authorization": f"Bearer {user['token']}", "Content-Type": content}
        sent = {**(body or {}), **_DRY} if verb == "DELETE" else body or {}
        connection.request(
            verb,
            f"{path}{'' if verb == 'GET' else '?dryRun=All'}",
            None if verb == "GET" else json.dumps(sent),
            head,
        )
        response = connection.getresponse()
        if response.status == HTTPStatus.OK and "?watch=1" in path:
            connection.close()  # the next request opens it again
            return response.status, ""
        return response.status, response.read().decode()

    with contextlib.closing(connection):
        yield ask
