"""The driver's wire against Kubernetes' own plugin manager and DRA manager (W1 of docs/spec/driver.md): found by its
socket (D-4), versions (D-7), request names and CDI ids as containers get them (D-12, D-13), repeated calls (D-17), its
slices once it is away (D-18), error texts (D-20), two instances (D-8)."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path
from typing import Any

import pytest

from devtools.upstream.kubelet.witness import CommandRefused
from node_driver.wire import plugin_server
from node_driver.wire.messages import DRA_V1, DRA_V1BETA1
from node_driver.wire.plugin_server import PluginServer
from node_driver.wire.service import Health, ReadyClaim
from tests.node_driver.kubelet.node import (
    DRIVER,
    KubeletFolder,
    cdi_id,
    claim,
    pod,
    published_slice,
    registered,
    until,
)
from tests.node_driver.wire.claim_services import OneDeviceEach, SettableHealth, report

pytestmark = pytest.mark.go


@pytest.fixture
def node(program: Path, folder: Path) -> KubeletFolder:
    (folder / "registry").mkdir()
    return KubeletFolder(program, folder)


@pytest.mark.parametrize(
    "versions", [plugin_server.VERSIONS, {"v1beta1.DRAPlugin": DRA_V1BETA1}], ids=["both", "v1beta1"]
)
async def test_claims_are_prepared_handed_to_containers_and_released(
    node: KubeletFolder, versions: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_server, "VERSIONS", versions)
    service, vm = OneDeviceEach(), pod("a", "b")
    async with node.kubelet() as kubelet, node.server(service):
        await kubelet.ask("create", claims=[claim("a"), claim("b")])
        await registered(kubelet)
        await kubelet.ask("prepare", pod=vm)
        assert sorted(await kubelet.ask("cdi-devices", pod=vm, container="compute")) == [cdi_id("a"), cdi_id("b")]
        assert await kubelet.ask("cdi-devices", pod=vm, container="sidecar") == []
        await kubelet.ask("prepare", pod=vm)
        assert await kubelet.ask("needs-unprepare", pod=vm) is True
        await kubelet.ask("unprepare", pod=vm)
        assert await kubelet.ask("needs-unprepare", pod=vm) is False
    # The kubelet keeps a pod's claims in a Go map: one call names them in any order.
    calls = [sorted(service.calls[:2]), sorted(service.calls[2:])]
    assert calls == [["prepare a", "prepare b"], ["unprepare a", "unprepare b"]]


async def test_a_kubelet_without_a_common_version_says_so_in_the_drivers_log(
    node: KubeletFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(plugin_server, "VERSIONS", {"v2.DRAPlugin": DRA_V1})

    async def refused() -> str:
        errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert errors
        return errors[0]

    async with node.kubelet() as kubelet, node.server(OneDeviceEach()):
        error = await until(refused)
        with pytest.raises(CommandRefused) as unknown:
            await kubelet.ask("registered", driver=DRIVER)
    assert error.startswith(f"the kubelet refused to register driver {DRIVER}: ")
    assert "none of services supported by the plugin" in error
    assert '"v2.DRAPlugin"' in error
    assert str(unknown.value) == f"DRA driver {DRIVER} is not registered"


async def test_errors_reach_the_pod_as_the_service_wrote_them(node: KubeletFolder) -> None:
    service = OneDeviceEach()
    service.failures["a"] = "device pci-0000-41-00-0: eth3 is up with an address; ip link set eth3 down"
    service.crashes["b"] = RuntimeError("boom")
    service.held["c"] = asyncio.Event()
    errors = {}
    async with node.kubelet() as kubelet, node.server(service):
        await kubelet.ask("create", claims=[claim(name) for name in "abc"])
        await registered(kubelet)
        for name in "abc":
            with pytest.raises(CommandRefused) as refused:
                await kubelet.ask("prepare", pod=pod(name))
            errors[name] = str(refused.value)
        service.held["c"].set()
        await kubelet.ask("prepare", pod=pod("c"))
    start = "prepare dynamic resources: NodePrepareResources failed for ResourceClaim"
    assert errors == {
        "a": f"{start} a: {service.failures['a']}",
        "b": f"{start} b: the driver failed: RuntimeError('boom'); its log says more",
        "c": f"{start} c: the devices are still being prepared; the kubelet asks again",
    }


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ({}, "NodePrepareResources skipped 1 ResourceClaims"),
        ({"uid-a": ReadyClaim(()), "uid-z": ReadyClaim(())}, "returned result for unknown claim UID uid-z"),
    ],
    ids=["skipped", "foreign"],
)
async def test_the_kubelet_notices_a_server_that_answers_for_other_claims(
    node: KubeletFolder, answers: dict[str, Any], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wrong(*_arguments: object) -> dict[str, Any]:
        return answers

    monkeypatch.setattr(PluginServer, "_answers", wrong)
    async with node.kubelet() as kubelet, node.server(OneDeviceEach()):
        await kubelet.ask("create", claims=[claim("a")])
        await registered(kubelet)
        with pytest.raises(CommandRefused) as refused:
            await kubelet.ask("prepare", pod=pod("a"))
    assert error in str(refused.value)


async def test_a_newer_instance_releases_what_the_older_prepared(node: KubeletFolder) -> None:
    old, new, vm = OneDeviceEach(), OneDeviceEach(), pod("a")
    async with node.kubelet() as kubelet:
        await kubelet.ask("create", claims=[claim("a")])
        async with node.server(old, uid="old"):
            await registered(kubelet)
            await kubelet.ask("prepare", pod=vm)
            async with node.server(new, uid="new"):
                await until(lambda: _connected(node, 2))
                await kubelet.ask("unprepare", pod=vm)
            await until(lambda: _deregistered(node, "new"))
            await until(lambda: kubelet.ask("prepare", pod=vm))  # as the kubelet does: it may ask the one that ends
    assert (old.calls, new.calls) == (["prepare a", "prepare a"], ["unprepare a"])


async def test_after_the_newer_instance_was_killed_the_older_is_asked(node: KubeletFolder) -> None:
    old = OneDeviceEach()
    async with node.kubelet() as kubelet, node.server(old, uid="old"):
        await kubelet.ask("create", claims=[claim("a"), claim("b")])
        await registered(kubelet)
        async with node.driver_process("new") as process:
            await until(lambda: _connected(node, 2))
            with pytest.raises(CommandRefused, match="instance new refuses"):
                await kubelet.ask("prepare", pod=pod("b"))
            process.kill()
            await process.wait()
            assert (node.folder / f"plugins/{DRIVER}/dra-new.sock").exists()
            await until(lambda: kubelet.ask("prepare", pod=pod("b")))
        async with node.server(OneDeviceEach(), uid="newest"):
            assert sorted(path.name for path in node.folder.rglob("*.sock")) == [
                "dra-newest.sock", "dra-old.sock", f"{DRIVER}-newest-reg.sock", f"{DRIVER}-old-reg.sock",
            ]  # fmt: skip
    assert old.calls == ["prepare b"]


async def test_a_driver_that_ends_takes_its_sockets_with_it_and_comes_back(node: KubeletFolder) -> None:
    async with node.kubelet() as kubelet:
        await kubelet.ask("create", claims=[claim("a")])
        async with node.driver_process() as process:
            await registered(kubelet)
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
            assert list(node.folder.rglob("*.sock")) == []
            await until(lambda: _gone(kubelet))
        service = OneDeviceEach()
        async with node.server(service):
            await registered(kubelet)
            await kubelet.ask("prepare", pod=pod("a"))
    assert service.calls == ["prepare a"]


async def test_a_kubelet_that_starts_again_prepares_again(node: KubeletFolder) -> None:
    """A kubelet asks for every pod again after its start (D-15)."""
    service, vm = OneDeviceEach(), pod("a")
    async with node.server(service):
        async with node.kubelet() as kubelet:
            await kubelet.ask("create", claims=[claim("a")])
            await registered(kubelet)
            await kubelet.ask("prepare", pod=vm)
        async with node.kubelet() as kubelet:
            await kubelet.ask("create", claims=[claim("a")])
            await registered(kubelet)
            assert await kubelet.ask("cdi-devices", pod=vm, container="compute") == [cdi_id("a")]
            assert service.calls == ["prepare a"]
            await kubelet.ask("prepare", pod=vm)
            await kubelet.ask("unprepare", pod=vm)
    assert service.calls == ["prepare a", "prepare a", "unprepare a"]


async def test_slices_of_a_driver_that_is_killed_are_wiped_after_the_delay(node: KubeletFolder) -> None:
    async def only_others() -> None:
        assert await kubelet.ask("slices") == ["other"]

    async with node.kubelet("-wiping-delay", "500ms") as kubelet, node.driver_process() as process:
        await registered(kubelet)
        await kubelet.ask("create", slices=[published_slice("ours"), published_slice("other", "gpu.example.com")])
        assert await kubelet.ask("slices") == ["other", "ours"]
        process.kill()
        await until(only_others)


async def test_claims_of_a_pod_that_was_deleted_by_force_are_released(node: KubeletFolder) -> None:
    """The pod is gone, so the kubelet names claims of its own record (D-16)."""

    async def released() -> None:
        assert service.calls == ["prepare a", "unprepare a"]

    service, vm = OneDeviceEach(), pod("a")
    async with node.kubelet("-reconcile-period", "200ms") as kubelet, node.server(service):
        await kubelet.ask("create", claims=[claim("a")])
        await registered(kubelet)
        await kubelet.ask("prepare", pod=vm)
        await asyncio.sleep(0.5)
        assert service.calls == ["prepare a"]
        await kubelet.ask("delete-claim", claims=[claim("a")])
        await kubelet.ask("forget-pod", pod=vm)
        await until(released)


async def test_health_reaches_the_status_of_the_container(node: KubeletFolder) -> None:
    async def shows(health: str, message: str | None) -> None:
        assert await kubelet.ask("health", pod=vm) == {
            "compute": [{"name": "claim:a/gpu", "resources": [_health(health, message)]}],
            "sidecar": None,
        }

    service, health, vm = OneDeviceEach(), SettableHealth(report("a")), pod("a")
    loop = asyncio.get_running_loop()
    async with node.kubelet() as kubelet:
        await kubelet.ask("create", claims=[claim("a")])
        async with node.server(service, health):
            await registered(kubelet)
            await kubelet.ask("prepare", pod=vm)
            await until(lambda: shows("Healthy", None))
            began = loop.time()
            health.set(report("a", Health.UNHEALTHY, "é" * 600))
            await until(lambda: shows("Unhealthy", "é" * 510 + "..."))
            assert loop.time() - began < 1
            health.set(report("a"))
            await until(lambda: shows("Healthy", None))
        await until(lambda: shows("Unknown", None))


def _health(health: str, message: str | None) -> dict[str, str]:
    status = {"resourceID": cdi_id("a"), "health": health}
    return status | ({"message": message} if message else {})


async def _connected(node: KubeletFolder, count: int) -> None:
    """Instances that the kubelet is connected to."""
    log = (node.folder / "kubelet.log").read_text()
    assert log.count("connected=true") >= count


async def _deregistered(node: KubeletFolder, uid: str) -> None:
    log = (node.folder / "kubelet.log").read_text()
    assert any("connected=false" in line and f"dra-{uid}.sock" in line for line in log.splitlines())


async def _gone(kubelet: Any) -> None:
    refusal = ""
    try:
        await kubelet.ask("registered", driver=DRIVER)
    except CommandRefused as refused:
        refusal = str(refused)
    assert refusal == f"DRA driver {DRIVER} is not registered"
