"""The sidecar's services on a Unix socket, asked as KubeVirt asks (K-11.5, K-11.8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import pytest

from launcher.errors import NO_ADDRESS, UNREADABLE_DOMAIN, LauncherError
from launcher.hook.server import HookServer
from tests.launcher.hook.kubevirt_side import VERSIONS, call, collect, mutate_domain


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short one: a socket's path has at most 107 bytes."""
    with TemporaryDirectory() as path:
        (Path(path) / "hook-sidecar-0").mkdir()
        yield Path(path)


def mutation(domain: bytes, vmi: bytes) -> bytes:
    match domain:
        case b"missing":
            raise LauncherError(NO_ADDRESS, "gpus/g", f"gpus/g: {vmi.decode()}")
        case b"unreadable":
            raise LauncherError(UNREADABLE_DOMAIN, "domain", "the domain is a <network>")
        case b"fault":
            raise ZeroDivisionError("a secret")
    return domain + b" for " + vmi


@pytest.fixture
async def server(folder: Path) -> AsyncIterator[HookServer]:
    async with HookServer(str(folder / "hook-sidecar-0" / "virt-dra.sock"), mutation) as serving:
        yield serving


@pytest.mark.parametrize("spoken", [VERSIONS, VERSIONS[1:], VERSIONS[2:]], ids=["v1alpha3", "v1alpha2", "v1alpha1"])
@pytest.mark.usefixtures("server")
async def test_a_kubevirt_that_knows_one_version_or_all_gets_its_domain(folder: Path, spoken: tuple[str, ...]) -> None:
    (callback,) = await collect(folder, spoken)

    assert (callback.version, callback.hook_points) == (spoken[0], ("OnDefineDomain", "Shutdown"))
    assert await callback.on_define_domain(b"<domain/>", b"{}") == b"<domain/> for {}"


@pytest.mark.usefixtures("server")
async def test_methods_are_those_of_their_version(folder: Path) -> None:
    (callback,) = await collect(folder)
    given: dict[int, str | bytes] = {1: b"no cloud", 2: b"{}", 3: b"data"}
    assert await callback.call("PreCloudInitIso", given) == [(1, b"no cloud"), (3, b"data")]
    for version, method in (("v1alpha1", "PreCloudInitIso"), ("v1alpha1", "Shutdown"), ("v1alpha2", "Shutdown")):
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await call(callback.socket, f"/kubevirt.hooks.{version}.Callbacks/{method}", {})
        assert refusal.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_the_sidecar_ends_with_its_vm(folder: Path, server: HookServer) -> None:
    (callback,) = await collect(folder)
    ended = asyncio.create_task(server.ended())
    assert await callback.on_define_domain(b"<domain/>", b"{}")
    assert not ended.done()
    assert await callback.call("Shutdown", {}) == []
    await asyncio.wait_for(ended, 10)


@pytest.mark.usefixtures("server")
async def test_a_plugin_changes_domains_that_boot_only(folder: Path) -> None:
    socket = folder / "hook-sidecar-0" / "virt-dra.sock"
    answers = {
        context: await mutate_domain(socket, b"<domain/>", b"{}", context)
        for context in ("Boot", "MigrationSource", "MigrationTarget")
    }
    assert answers == {
        "Boot": b"<domain/> for {}",
        "MigrationSource": b"<domain/>",
        "MigrationTarget": b"<domain/>",
    }


@pytest.mark.parametrize(
    ("domain", "vmi", "code", "text"),
    [
        (b"missing", b"no address", "FAILED_PRECONDITION", "virt-dra: gpus/g: no address"),
        (b"missing", "no\n\x1bäddress".encode(), "FAILED_PRECONDITION", r"virt-dra: gpus/g: no\n\x1bäddress"),
        (b"missing", b"x" * 5000, "FAILED_PRECONDITION", f"virt-dra: gpus/g: {'x' * 979}..."),
        (b"missing", b"\x01" * 5000, "FAILED_PRECONDITION", "virt-dra: gpus/g: " + r"\x01" * 244 + r"\x0..."),
        (b"unreadable", b"", "INVALID_ARGUMENT", "virt-dra: the domain is a <network>"),
        (b"fault", b"", "INTERNAL", "virt-dra: the hook failed; its container's log says why"),
    ],
)
@pytest.mark.usefixtures("server")
async def test_a_refusal_is_a_text_for_the_condition_of_the_vmi(
    folder: Path, domain: bytes, vmi: bytes, code: str, text: str
) -> None:
    (callback,) = await collect(folder)
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await callback.on_define_domain(domain, vmi)
    assert (refusal.value.code().name, refusal.value.details()) == (code, text)
    assert await callback.on_define_domain(b"<domain/>", b"{}") == b"<domain/> for {}"


@pytest.mark.usefixtures("server")
async def test_a_message_larger_than_any_of_kubevirts_is_refused_unread(folder: Path) -> None:
    (callback,) = await collect(folder)
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await callback.on_define_domain(b" " * (4 << 20), b"{}")
    assert refusal.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_socket_that_can_not_be_bound_is_told(folder: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        async with HookServer(str(folder / "nowhere" / "s.sock"), mutation):
            pass
