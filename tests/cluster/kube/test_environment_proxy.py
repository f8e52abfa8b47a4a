"""Proxies of the environment, as Go's own package answered (``devtools/upstream/proxy``, golang.org/x/net v0.61.0)."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from virt_dra.cluster.kube.environment_proxy import environment_proxy

RECORDED = [json.loads(line) for line in Path(__file__).with_name("proxies.jsonl").read_text().splitlines()]


def test_as_go_reads_them() -> None:
    differing = []
    for asked in RECORDED:
        server = urlsplit(asked["server"])
        host = (server.hostname or "").encode("idna").decode()
        environ = {f"{server.scheme}_proxy": asked["proxy"], "no_proxy": asked["noProxy"]}
        port = server.port or {"http": 80, "https": 443}[server.scheme]
        if (proxy := environment_proxy(environ, server.scheme, host, port)) != asked["answer"]:
            differing.append((asked, proxy))
    assert differing == []
    assert len({asked["noProxy"] for asked in RECORDED if not asked["answer"]}) > 20


@pytest.mark.parametrize(
    ("environ", "proxy"),
    [
        ({"HTTPS_PROXY": "http://a:1"}, "http://a:1"),
        ({"HTTPS_PROXY": "http://a:1", "https_proxy": "http://b:1"}, "http://b:1"),
        ({"HTTPS_PROXY": "http://a:1", "https_proxy": ""}, "http://a:1"),
        ({"HTTP_PROXY": "http://a:1", "ALL_PROXY": "http://b:1"}, ""),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "c.example"}, ""),
    ],
)
def test_which_variables_count(environ: dict[str, str], proxy: str) -> None:
    assert environment_proxy(environ, "https", "c.example", 6443) == proxy
