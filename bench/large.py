"""The operator over what one tenant or one driver can fill a cluster with: memory, time until it is ready, and how long
its probe waits.

Run: ``python -m bench large`` (``--quick``: a tenth). 10,000 VMIs of one tenant, with their pods and claims, each with
256 KiB of annotations, would take 7.5 GiB of etcd, which has a quota; so they come from an API server of this module,
in a process of its own, that makes each page as it is asked for. 100,000 devices of one driver: in one pool that all
nodes see, and in a pool a node.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from aiohttp import web
from rich.console import Console
from rich.table import Table

from devtools.cluster.ports import free_port
from virt_dra.api.reading.scheme import all_kinds

PROGRAM = "from virt_dra.cli.main import main; main()"
NOTE = "x" * 256 * 1024
VERSION = {"major": "1", "minor": "37", "gitVersion": "v1.37.1"}
AFTERWARDS = 10.0
"""Seconds for which the probe is asked once it is ready."""

PATIENCE = 900.0
"""Seconds until it must be ready."""

_KINDS = {kind.PLURAL: kind.KIND for kind in all_kinds()}

Make = Callable[[int], str]
"""The number of an object -> its JSON."""
Lists = Mapping[str, tuple[int, Make]]
"""Plural -> how many there are, and what makes them."""


def _tenant(number: int) -> Lists:
    entry = '[{"name":"gpu","resourceClaimTemplateName":"gpu"}]'

    def meta(name: str, uid: str, more: str = "") -> str:
        annotations = f'{{"note":"{NOTE}"}}'
        return (
            f'{{"name":"{name}","namespace":"t","uid":"{uid}","resourceVersion":"5","annotations":{annotations}{more}}}'
        )

    def vmi(n: int) -> str:
        gpu = '{"name":"g","claimName":"gpu","requestName":"gpu"}'
        spec = f'{{"resourceClaims":{entry},"domain":{{"devices":{{"gpus":[{gpu}]}}}}}}'
        return f'{{"metadata":{meta(f"vm-{n:05}", f"u{n}")},"spec":{spec},"status":{{"phase":"Scheduling"}}}}'

    def pod(n: int) -> str:
        owner = (
            f'{{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","name":"vm-{n:05}","uid":"u{n}",'
            '"controller":true}'
        )
        labels = f'{{"kubevirt.io":"virt-launcher","kubevirt.io/created-by":"u{n}"}}'
        more = f',"labels":{labels},"ownerReferences":[{owner}]'
        container = '{"name":"compute","resources":{"claims":[{"name":"gpu","request":"gpu"}]}}'
        spec = f'{{"nodeName":"n","containers":[{container}],"resourceClaims":{entry}}}'
        status = f'{{"resourceClaimStatuses":[{{"name":"gpu","resourceClaimName":"c-{n:05}"}}]}}'
        return f'{{"metadata":{meta(f"virt-launcher-vm-{n:05}", f"p{n}", more)},"spec":{spec},"status":{status}}}'

    def claim(n: int) -> str:
        owner = f'{{"apiVersion":"v1","kind":"Pod","name":"virt-launcher-vm-{n:05}","uid":"p{n}","controller":true}}'
        request = '{"name":"gpu","exactly":{"deviceClassName":"gpu"}}'
        metadata = meta(f"c-{n:05}", f"c{n}", f',"ownerReferences":[{owner}]')
        return f'{{"metadata":{metadata},"spec":{{"devices":{{"requests":[{request}]}}}}}}'

    return {"virtualmachineinstances": (number, vmi), "pods": (number, pod), "resourceclaims": (number, claim)}


def _driver(slices: int, devices: int, *, one_pool: bool) -> Lists:
    def part(n: int) -> str:
        made = [
            {
                "name": f"d-{n}-{k}",
                "attributes": {
                    "resource.kubernetes.io/pciBusID": {"string": f"0000:{n % 256:02x}:{k % 32:02x}.{k // 32}"},
                    "model": {"string": "m"},
                    "index": {"int": k},
                },
            }
            for k in range(devices)
        ]
        where = {"allNodes": True} if one_pool else {"nodeName": f"n-{n}"}
        pool = {
            "name": "all" if one_pool else f"n-{n}",
            "generation": 1,
            "resourceSliceCount": slices if one_pool else 1,
        }
        spec = {"driver": "gpu.example.com", **where, "pool": pool, "devices": made}
        return json.dumps({"metadata": {"name": f"s-{n:05}", "uid": f"s{n}", "resourceVersion": "5"}, "spec": spec})

    return {"resourceslices": (slices, part)}


class _Api:
    """Answers lists, in pages; watches say nothing, and every write is a conflict."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/version":
            return web.json_response(VERSION)
        if request.path in ("/api", "/apis"):
            return web.json_response({"versions": []} if request.path == "/api" else {"groups": []})
        if request.method != "GET":
            return web.json_response(
                {"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict"}, status=409
            )
        if request.query.get("watch"):
            answer = web.StreamResponse()
            await answer.prepare(request)
            await asyncio.sleep(3600)
            return answer
        number, make = self._lists.get(request.path.rsplit("/", 1)[-1], (0, str))
        begin, limit = int(request.query.get("continue", "0")), int(request.query.get("limit", "0")) or number
        meta: dict[str, str] = {
            "resourceVersion": "9",
            **({"continue": str(begin + limit)} if begin + limit < number else {}),
        }
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        with suppress(ConnectionError):  # whoever asks gives up a page that is too large
            kind = _KINDS.get(request.path.rsplit("/", 1)[-1], "")
            await self._page(answer, kind, meta, range(begin, min(begin + limit, number)), make)
        return answer

    @staticmethod
    async def _page(answer: web.StreamResponse, kind: str, meta: dict[str, str], numbers: range, make: Make) -> None:
        await answer.write(f'{{"kind":"{kind}List","metadata":{json.dumps(meta)},"items":['.encode())
        for position in numbers:
            await answer.write(f"{',' if position > numbers.start else ''}{make(position)}".encode())
        await answer.write(b"]}")


def serve(scene: str, number: int, port: int) -> None:
    """The API server, in a process of its own."""
    lists = {
        "tenant": lambda: _tenant(number),
        "pool": lambda: _driver(number // 8, 8, one_pool=True),
        "pool of large slices": lambda: _driver(max(number // 128, 1), 128, one_pool=True),
        "nodes": lambda: _driver(number // 8, 8, one_pool=False),
    }[scene]()

    async def run() -> None:
        runner = web.ServerRunner(web.Server(_Api(lists).handle, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await asyncio.sleep(3600)

    asyncio.run(run())


def main(*, quick: bool = False) -> None:
    share = 10 if quick else 1
    table = Table("what", "ready after", "CPU", "memory: peak; then", "probe: slowest before; after", "ended after",
                  title="The operator over what one tenant or driver can make")  # fmt: skip
    for title, scene, number in (
        (f"{10_000 // share:,} VMIs, pods and claims, 256 KiB of annotations each", "tenant", 10_000 // share),
        (f"{100_000 // share:,} devices in one pool, 8 a slice", "pool", 100_000 // share),
        (f"{100_000 // share:,} devices in one pool, 128 a slice", "pool of large slices", 100_000 // share),
        (f"{100_000 // share:,} devices, 8 a node", "nodes", 100_000 // share),
    ):
        table.add_row(title, *_measured(scene, number))
    Console(width=150).print(table)


def _measured(scene: str, number: int) -> tuple[str, ...]:
    port, plain, health = free_port(), free_port(), free_port()
    server = subprocess.Popen(
        [sys.executable, "-c", f"from bench.large import serve; serve({scene!r}, {number}, {port})"]
    )
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [cluster],
            "contexts": [context],
        }
        kubeconfig.write_text(json.dumps({**config, "users": [{"name": "u", "user": {}}]}), encoding="utf-8")
        options = ["--kubeconfig", str(kubeconfig), "--no-election", "--host", "127.0.0.1", "--log-level", "error"]
        ports = ["--plain-port", str(plain), "--health-port", str(health)]
        began = time.monotonic()
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, "operator", *options, *ports])
        try:
            before = _probed(process, plain, lambda ready: ready)
            ready_after, cpu, peak = time.monotonic() - began, _cpu(process), _mib(process, "VmHWM")
            end = time.monotonic() + AFTERWARDS
            after = _probed(process, plain, lambda ready: time.monotonic() > end)
            settled = _mib(process, "VmRSS")
        finally:
            process.terminate()
            began = time.monotonic()
            process.wait(60)
            ended = time.monotonic() - began
            server.terminate()
            server.wait(60)
    return (
        f"{ready_after:.1f} s", f"{cpu:.1f} s", f"{peak:.0f}; {settled:.0f} MiB", f"{before * 1000:.0f}; "
f"{after * 1000:.0f} ms",
        f"{ended:.1f} s",
    )  # fmt: skip


def _probed(process: subprocess.Popen[bytes], port: int, until: Callable[[bool], bool]) -> float:
    """Asks /readyz until something holds; the slowest answer, in seconds."""
    slowest, end = 0.0, time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        began = time.monotonic()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60) as answer:
                ready = answer.status == 200
        except urllib.error.HTTPError:
            ready = False
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
            continue
        slowest = max(slowest, time.monotonic() - began)
        if until(ready):
            return slowest
        time.sleep(0.02)
    raise RuntimeError(
        "the operator isn't ready" if process.returncode is None else f"the operator ended with {process.returncode}"
    )


def _cpu(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _mib(process: subprocess.Popen[bytes], field: str) -> float:
    match_ = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    return int(match_[1]) / 1024 if match_ else 0.0
