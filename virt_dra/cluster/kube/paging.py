"""Lists of an API server, read page by page: of one state, each of a bounded size, and not without end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from virt_dra.cluster.kinds import ApiResource
from virt_dra.cluster.kube.decoding import parsed_list
from virt_dra.cluster.kube.limits import MIB
from virt_dra.cluster.kube.paths import collection
from virt_dra.cluster.kube.transport import KubeRequest, TooMuch, Transport
from virt_dra.cluster.large import beside_the_loop

Selection = tuple[tuple[str, str], ...]
"""labelSelector and fieldSelector, where given."""


@dataclass
class ListPage:
    """Raw items, which the reader may take out one by one. ``size``: bytes of its JSON."""

    items: list[Any]
    resource_version: str
    size: int


def selection(labels: str, fields: str) -> Selection:
    given = (("labelSelector", labels), ("fieldSelector", fields))
    return tuple((name, value) for name, value in given if value)


async def pages(
    transport: Transport, resource: ApiResource, namespace: str, selected: Selection, *, at_once: bool = False
) -> AsyncIterator[ListPage]:
    """The pages of a list, at least one. ``at_once``: a single one. Raises :class:`TooMuch` beyond an API server's
    lists."""
    limits = transport.limits
    path = collection(resource, namespace)
    token, number, read, count = "", 1 if at_once else limits.page, 0, 0
    end = asyncio.get_running_loop().time() + limits.list_seconds
    while True:
        limit = () if at_once else (("limit", str(number)),)
        following = (("continue", token),) if token else ()
        most = limits.list_bytes if at_once else 4 * limits.page_bytes if number > 1 else 0
        request = KubeRequest(
            "GET", path, (*selected, *limit, *following), verb="list", subject=resource.plural, most=most
        )
        try:
            body = await transport.request(request)
        except TooMuch:
            if number == 1:
                raise
            number = max(number // 8, 1)  # the state that the token names has pages of any size
            continue
        size, read, count = len(body), read + len(body), count + 1
        number = max(min(limits.page, number * 4, number * limits.page_bytes // max(size, 1)), 1)
        items, meta = await beside_the_loop(size, parsed_list, body, resource.kind)
        del body
        yield ListPage(items, meta["resourceVersion"], size)
        before, token = token, str(meta.get("continue") or "")
        if not token:
            return
        if token == before:
            raise transport.too_much(path, "repeats a page without end")
        if read > limits.list_bytes:
            raise transport.too_much(path, f"has a list of more than {limits.list_bytes // MIB} MiB")
        if count >= limits.list_pages:
            raise transport.too_much(path, f"has a list of more than {limits.list_pages:,} pages")
        if asyncio.get_running_loop().time() > end:
            raise transport.too_much(path, f"takes more than {limits.list_seconds:g} s for one list")
