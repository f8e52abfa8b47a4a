"""The driver's server, asked over its sockets as a kubelet asks: what it says of itself (D-5, D-7), an answer for every
claim in both versions (D-9, D-10), attempts that outlive a call (D-11), calls side by side (D-58), and two instances,
of which none takes a live one's socket (D-8, D-57)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import pytest

from node_driver.wire.messages import (
    DRA_V1,
    DRA_V1BETA1,
    HEALTH_V1,
    HEALTH_V1ALPHA1,
    REGISTRATION,
)
from node_driver.wire.server import KubeletServer
from node_driver.wire.service import Health
from node_driver.wire.sockets import SocketsInUse
from tests.node_driver.wire.claim_services import OneDeviceEach, SettableHealth, report
from virt_dra.protobuf.messages import MessagePackage

DRIVER = "passthrough.virt-dra.io"
STILL = "the devices are still being prepared; the kubelet asks again"


@pytest.fixture
def folder() -> Any:
    """A short one: a socket's path has at most 107 bytes."""
    with TemporaryDirectory() as path:
        yield Path(path)


def served(folder: Path, service: Any, health: Any = None, uid: str = "", wait: float = 15.0) -> KubeletServer:
    return KubeletServer(
        DRIVER, service, health or SettableHealth(), plugin_folder=str(folder / "plugin"),
        registry=str(folder / "registry"), pod_uid=uid, wait=wait,
    )  # fmt: skip


@asynccontextmanager
async def channel(path: Path) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(f"unix:{path}") as opened:
        yield opened


async def call(path: Path, package: MessagePackage, service: str, method: str, request: Any, response: str) -> Any:
    async with channel(path) as opened:
        stub = opened.unary_unary(
            f"/{package.package}.{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=package[response].FromString,
        )
        return await stub(request, timeout=30)


async def ask(
    folder: Path, method: str, *names: str, package: MessagePackage = DRA_V1, socket: str = "dra.sock"
) -> dict[str, Any]:
    claims = [package["Claim"](namespace="lab", name=name, uid=f"uid-{name}") for name in names]
    request = package[f"{method}Request"](claims=claims)
    response = await call(folder / "plugin" / socket, package, "DRAPlugin", method, request, f"{method}Response")
    return {uid: _plain(entry) for uid, entry in response.claims.items()}


def _plain(entry: Any) -> Any:
    if entry.error:
        return entry.error
    return [
        (list(device.request_names), device.pool_name, device.device_name, list(device.cdi_device_ids))
        for device in getattr(entry, "devices", ())
    ]


def device(name: str) -> Any:
    return (["gpu"], "node-a", name, [f"{DRIVER}/device=uid-{name}-{name}"])


@pytest.mark.parametrize("package", [DRA_V1, DRA_V1BETA1], ids=["v1", "v1beta1"])
async def test_both_versions_answer_for_every_claim(folder: Path, package: MessagePackage) -> None:
    service = OneDeviceEach()
    service.failures["b"] = "group 7 is held by another pod"
    service.crashes["c"] = KeyError("nic\n0")
    async with served(folder, service):
        prepared = await ask(folder, "NodePrepareResources", "a", "b", "c", package=package)
        released = await ask(folder, "NodeUnprepareResources", "a", "b", package=package)
    assert prepared == {
        "uid-a": [device("a")],
        "uid-b": "group 7 is held by another pod",
        "uid-c": "the driver failed: KeyError('nic\\n0'); its log says more",
    }
    assert released == {"uid-a": [], "uid-b": "group 7 is held by another pod"}


async def test_text_that_utf8_cannot_carry_fails_no_other_claim(folder: Path) -> None:
    service = OneDeviceEach()
    service.failures["a"] = "no file \udcff\n"
    async with served(folder, service):
        assert await ask(folder, "NodePrepareResources", "a", "b") == {
            "uid-a": "no file \\udcff\\n",
            "uid-b": [device("b")],
        }


async def test_an_error_of_any_length_is_cut(folder: Path) -> None:
    service = OneDeviceEach()
    service.failures = {str(number): "x" * 1_000_000 for number in range(20)}
    async with served(folder, service):
        answers = await ask(folder, "NodePrepareResources", "a", *service.failures)
    assert answers == {"uid-a": [device("a")]} | {f"uid-{name}": "x" * 1021 + "..." for name in service.failures}


async def test_an_attempt_that_takes_long_goes_on_and_is_joined(folder: Path) -> None:
    service = OneDeviceEach()
    service.held["a"] = asyncio.Event()
    async with served(folder, service, wait=0.2):
        assert await ask(folder, "NodePrepareResources", "a", "b") == {"uid-a": STILL, "uid-b": [device("b")]}
        assert await ask(folder, "NodePrepareResources", "a") == {"uid-a": STILL}
        service.held["a"].set()
        assert await ask(folder, "NodePrepareResources", "a") == {"uid-a": [device("a")]}
    assert service.calls[:2] == ["prepare a", "prepare b"]
    assert len(service.calls) <= 3


async def test_a_prepare_after_an_unprepare_is_a_new_attempt(folder: Path) -> None:
    service = OneDeviceEach()
    service.held["a"] = asyncio.Event()
    async with served(folder, service, wait=0.1):
        await ask(folder, "NodePrepareResources", "a")
        await ask(folder, "NodeUnprepareResources", "a")
        assert await ask(folder, "NodePrepareResources", "a") == {"uid-a": STILL}
    assert service.calls == ["prepare a", "unprepare a", "prepare a"]


async def test_a_caller_that_hangs_up_ends_no_attempt(folder: Path) -> None:
    service = OneDeviceEach()
    service.held["a"] = asyncio.Event()
    async with served(folder, service):
        asking = asyncio.create_task(ask(folder, "NodePrepareResources", "a"))
        while not service.calls:
            await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.sleep(0.1)
        service.held["a"].set()
        assert await ask(folder, "NodePrepareResources", "a") == {"uid-a": [device("a")]}


async def test_too_many_claims_and_too_long_messages_are_refused(folder: Path) -> None:
    service = OneDeviceEach()
    async with served(folder, service):
        with pytest.raises(grpc.aio.AioRpcError) as many:
            await ask(folder, "NodePrepareResources", *(str(number) for number in range(257)))
        with pytest.raises(grpc.aio.AioRpcError) as long:
            await ask(folder, "NodePrepareResources", "x" * (1 << 20))
        assert len(await ask(folder, "NodePrepareResources", *(str(number) for number in range(256)))) == 256
    assert (many.value.code(), many.value.details()) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "257 claims in one call, at most 256 are taken",
    )
    assert long.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len(service.calls) == 256


async def test_registration_says_where_and_in_which_versions_the_driver_serves(folder: Path) -> None:
    async with served(folder, OneDeviceEach(), uid="0b1a"):
        socket = folder / f"registry/{DRIVER}-0b1a-reg.sock"
        request = REGISTRATION["InfoRequest"]()
        info = await call(socket, REGISTRATION, "Registration", "GetInfo", request, "PluginInfo")
    assert (info.type, info.name, info.endpoint, list(info.supported_versions)) == (
        "DRAPlugin",
        DRIVER,
        str(folder / "plugin/dra-0b1a.sock"),
        ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"],
    )


async def test_a_refused_registration_is_logged_with_the_kubelets_error(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The kubelet says by NotifyRegistrationStatus why it refuses a driver (D-6)."""
    status = REGISTRATION["RegistrationStatus"](plugin_registered=False, error="no common version")
    async with served(folder, OneDeviceEach()):
        socket = folder / f"registry/{DRIVER}-reg.sock"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(
                socket, REGISTRATION, "Registration", "NotifyRegistrationStatus", status, "RegistrationStatusResponse"
            )
    assert refused.value.details() == "registration was refused: no common version"
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == [f"the kubelet refused to register driver {DRIVER}: no common version"]


async def test_health_is_repeated_and_reported_after_a_change(folder: Path) -> None:
    health = SettableHealth(report("a"))
    loop = asyncio.get_running_loop()
    async with served(folder, OneDeviceEach(), health), channel(folder / "plugin/dra.sock") as opened:
        for package in (HEALTH_V1, HEALTH_V1ALPHA1):
            watch = opened.unary_stream(
                f"/{package.package}.DRAResourceHealth/NodeWatchResources",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=package["NodeWatchResourcesResponse"].FromString,
            )
            health.set(report("a"))
            stream = watch(package["NodeWatchResourcesRequest"]())
            assert _healths(await stream.read()) == [("a", 1, "")]
            began = loop.time()
            health.set(report("a", Health.UNHEALTHY, "ü" * 600), report("b"))
            assert _healths(await stream.read()) == [("a", 2, "ü" * 510 + "..."), ("b", 1, "")]
            assert loop.time() - began < 1
            stream.cancel()


async def test_of_very_many_devices_as_many_are_reported_as_a_kubelet_takes(folder: Path) -> None:
    health = SettableHealth(*(report(f"pci-{number}", message="m" * 2000) for number in range(20_000)))
    devices = 0
    async with served(folder, OneDeviceEach(), health), channel(folder / "plugin/dra.sock") as opened:
        watch = opened.unary_stream(
            "/v1.DRAResourceHealth/NodeWatchResources",
            response_deserializer=HEALTH_V1["NodeWatchResourcesResponse"].FromString,
        )
        stream = watch(b"")
        while devices < 16_384:
            response = await stream.read()
            assert response.ByteSize() < 2 << 20
            devices += len(response.devices)
        stream.cancel()
    assert devices == 16_384


def _healths(response: Any) -> list[tuple[str, int, str]]:
    assert all(health.health_check_timeout_seconds == 30 for health in response.devices)
    assert all(health.device.pool_name == "node-a" for health in response.devices)
    return [(health.device.device_name, health.health, health.message) for health in response.devices]


async def test_two_instances_serve_side_by_side_and_leave_nothing(folder: Path) -> None:
    old, new = OneDeviceEach(), OneDeviceEach()
    async with served(folder, old, uid="old"):
        async with served(folder, new, uid="new"):
            await ask(folder, "NodePrepareResources", "a", socket="dra-old.sock")
            await ask(folder, "NodeUnprepareResources", "a", socket="dra-new.sock")
        assert sorted(path.name for path in folder.rglob("*.*")) == [
            "dra-old.sock", "instance-old.lock", f"{DRIVER}-old-reg.sock",
        ]  # fmt: skip
    assert (old.calls, new.calls) == (["prepare a"], ["unprepare a"])
    assert list(folder.rglob("*.*")) == []


async def test_the_sockets_of_a_live_instance_are_not_taken(folder: Path) -> None:
    async with served(folder, OneDeviceEach()):
        with pytest.raises(SocketsInUse, match=r"another process serves .*/dra\.sock"):
            await served(folder, OneDeviceEach()).__aenter__()
        assert await ask(folder, "NodePrepareResources", "a") == {"uid-a": [device("a")]}


async def test_what_killed_instances_left_is_removed(folder: Path) -> None:
    for name in ("plugin/dra-dead.sock", "plugin/instance-dead.lock", f"registry/{DRIVER}-dead-reg.sock",
                 "plugin/dra.sock", f"registry/{DRIVER}-reg.sock", "registry/other-reg.sock"):  # fmt: skip
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        os.mknod(path)
    async with served(folder, OneDeviceEach()):
        assert await ask(folder, "NodePrepareResources", "a") == {"uid-a": [device("a")]}
    assert [path.name for path in folder.rglob("*.*")] == ["other-reg.sock"]


async def test_stopping_does_not_wait_for_health_streams(folder: Path) -> None:
    loop = asyncio.get_running_loop()
    async with served(folder, OneDeviceEach()) as server, channel(folder / "plugin/dra.sock") as opened:
        watch = opened.unary_stream("/v1.DRAResourceHealth/NodeWatchResources")
        stream = watch(b"")
        await stream.read()
        began = loop.time()
        await server.__aexit__(None, None, None)
        assert loop.time() - began < 1
        assert await stream.read() == grpc.aio.EOF
        await server.__aenter__()
