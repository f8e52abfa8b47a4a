"""What stands around a control plane to play with: pods' network, and containers by image with addresses and probes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import click
import pytest

from devtools.agents.worlds import embedded_world, eventually
from devtools.play.agents import Site
from devtools.play.command import parsed_kubevirt
from devtools.play.network import PodNetwork
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.wire import Json
from virt_dra.simulator.agents.containers import RunningContainer
from virt_dra.simulator.agents.kubelet import Kubelet, image_name


async def run(life: Callable[[PodNetwork, Path], Awaitable[None]], folder: Path) -> None:
    network = PodNetwork(folder)
    with network:
        async with network.served():
            await life(network, folder / "egress.sock")


async def asked(socket: Path, head: bytes) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
    """The status line of the proxy's answer, and the connection behind it."""
    reader, writer = await asyncio.open_unix_connection(str(socket))
    writer.write(head)
    answer = await reader.readuntil(b"\r\n\r\n")
    return answer.split(b"\r\n")[0], reader, writer


def test_each_pod_has_an_address_of_its_own() -> None:
    network = PodNetwork(Path())
    addresses = [network.address_of(f"pod-{number}") for number in range(300)]
    assert addresses[:2] == ["10.244.0.1", "10.244.0.2"]
    assert len(set(addresses)) == 300
    assert network.address_of("pod-299") == addresses[299] == "10.244.1.44"
    with network, PodNetwork(Path()) as other:
        first, second = (network_.loopback_of("10.244.1.44") for network_ in (network, other))
        assert first != second
        assert [address.split(".")[0::2] for address in (first, second)] == [["127", "1"]] * 2
        with pytest.raises(ValueError, match=r"10\.0\.0\.1 is no pod's address"):
            network.loopback_of("10.0.0.1")


def test_the_api_server_is_told_of_the_proxy(tmp_path: Path) -> None:
    routing, selector = PodNetwork(tmp_path).server_arguments()
    assert routing == "--enable-aggregator-routing=true"
    configuration = json.loads(Path(selector.removeprefix("--egress-selector-config-file=")).read_text())
    (selection,) = configuration["egressSelections"]
    assert selection["name"] == "cluster"
    assert selection["connection"]["transport"] == {"uds": {"udsName": f"{tmp_path}/egress.sock"}}


async def test_a_pods_port_is_reached_by_its_address(tmp_path: Path) -> None:
    async def life(network: PodNetwork, socket: Path) -> None:
        async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                writer.write(line.upper())
            writer.close()

        address = network.address_of("uid")
        async with await asyncio.start_server(shout, network.loopback_of(address), 0) as server:
            port = server.sockets[0].getsockname()[1]
            status, reader, writer = await asked(
                socket, f"CONNECT {address}:{port} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
            )
            assert status == b"HTTP/1.1 200 Connection established"
            for text in (b"one\n", b"two\n"):
                writer.write(text)
                assert await reader.readline() == text.upper()
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()

    await run(life, tmp_path)


@pytest.mark.parametrize(
    "head",
    [
        b"CONNECT 192.0.2.1:80 HTTP/1.1",
        b"CONNECT 10.244.0.9:1 HTTP/1.1",
        b"GET / HTTP/1.1",
        b"CONNECT 10.244.0.9:x HTTP/1.1",
        b"\xff",
    ],
)
async def test_what_is_no_pods_port_is_refused(head: bytes, tmp_path: Path) -> None:
    async def life(network: PodNetwork, socket: Path) -> None:
        status, _, writer = await asked(socket, head + b"\r\n\r\n")
        assert status == b"HTTP/1.1 502 Bad Gateway"
        writer.close()

    await run(life, tmp_path)


def test_images_are_known_by_their_names() -> None:
    images = (
        "virt-dra:0.1.0",
        "registry.example.com:5000/team/virt-dra",
        "virt-dra@sha256:0123",
        "a/virt-dra:1@sha256:0123",
    )
    assert {image_name(image) for image in images} == {"virt-dra"}
    assert image_name("registry.example.com:5000/team/virt-dra-launcher:1") == "virt-dra-launcher"
    assert image_name("") == ""


async def test_a_pod_that_serves_is_ready_at_its_address_once_its_probe_succeeds(tmp_path: Path) -> None:
    serves = asyncio.Event()

    async def program(container: RunningContainer) -> int:
        await serves.wait()
        container.serving = True
        await asyncio.Event().wait()
        return 0

    def pod(name: str, image: str) -> Pod:
        probe: Json = {"httpGet": {"path": "/readyz", "port": 80}}
        spec = {"nodeName": "node-1", "containers": [{"name": "web", "image": image, "readinessProbe": probe}]}
        return Pod.from_wire({"metadata": {"name": name, "namespace": namespace}, "spec": spec})

    async with embedded_world() as (cluster, namespace):
        kubelet = Kubelet(
            cluster,
            ("node-1",),
            (),
            tmp_path,
            images={"web": program},
            address_of=PodNetwork(tmp_path).address_of,
            probe_period=0.02,
        )
        await kubelet.register()
        async with kubelet.running():
            await cluster.create(pod("ours", "registry.example.com/web:1"))
            await cluster.create(pod("other", "else"))

            async def seen(name: str) -> tuple[object, bool]:
                status = (await cluster.get(Pod, name, namespace)).to_wire().get("status", {})
                conditions = {condition["type"]: condition["status"] for condition in status.get("conditions", ())}
                return status.get("podIP"), conditions.get("Ready") == "True"

            await eventually(lambda: seen("other"), lambda answer: answer[1])
            address, ready = await eventually(lambda: seen("ours"), lambda answer: bool(answer[0]))
            assert (address in ("10.244.0.1", "10.244.0.2"), ready) == (True, False)
            serves.set()
            assert await eventually(lambda: seen("ours"), lambda answer: answer[1]) == (address, True)


def test_what_is_asked_for_is_read_and_told() -> None:
    assert parsed_kubevirt("none") is None
    assert parsed_kubevirt("1.8.3") == KubeVirtVersion(1, 8, 3)
    with pytest.raises(click.BadParameter) as refused:
        parsed_kubevirt("new")
    assert refused.value.message == (
        "'new' is no KubeVirt version; write for example 1.9, 1.8.3 or main; where there shall be no KubeVirt say: none"
    )
    assert str(Site(None, ("node-0",), 1, "d")) == "1 node with 1 GPU each (driver d), no KubeVirt"
    assert (
        str(Site(KubeVirtVersion(1, 9, 0), ("a", "b"), 4, "d"))
        == "2 nodes with 4 GPUs each (driver d), a small KubeVirt 1.9.0"
    )
