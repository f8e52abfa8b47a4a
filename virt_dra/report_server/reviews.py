"""Reviews by a real API server. Importing this module costs a third of a second, as :mod:`virt_dra.cluster.kube`
does."""

from __future__ import annotations

from typing import Final

from virt_dra.api.wire import Json
from virt_dra.cluster.kinds import ApiResource
from virt_dra.cluster.kube.decoding import parsed
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.cluster.kube.transport import KubeRequest, Transport
from virt_dra.report_server.viewers import Viewer, access_review, is_allowed, token_review, viewer_of

REVIEW_LIMITS: Final = ClientLimits(qps=200, burst=400, timeout=5.0, connect_timeout=3.0, patience=6.0, attempts=3)
"""Somebody waits for each review, and a dozen make a viewer; without an answer the viewer is refused."""
_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class ClusterReviews:
    """Implements :class:`virt_dra.report_server.viewers.Reviews`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def authenticated(self, token: str) -> Viewer | None:
        return viewer_of(await self._asked(_TOKENS, token_review(token), "tokenreviews"))

    async def may_list(self, viewer: Viewer, resource: ApiResource) -> bool:
        return is_allowed(await self._asked(_ACCESS, access_review(viewer, resource), "subjectaccessreviews"))

    async def _asked(self, path: str, body: Json, subject: str) -> Json:
        # Reviews are stored nowhere, so that one may be repeated whose answer was lost.
        return parsed(
            await self._transport.request(KubeRequest("POST", path, body=body, verb="create", subject=subject))
        )
