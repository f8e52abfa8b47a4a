"""Names of the two sockets, and how they get shorter, by the rules of Kubernetes' helper (D-1, D-2)."""

from __future__ import annotations

import pytest

from node_driver.wire.sockets import InstanceSockets, instance_sockets

UID = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
REGISTRY = "/var/lib/kubelet/plugins_registry"


def sockets(driver: str, uid: str) -> tuple[str, str, str]:
    folder = f"/var/lib/kubelet/plugins/{driver}"
    names = instance_sockets(driver, folder, REGISTRY, uid)
    assert names.registration.startswith(f"{REGISTRY}/")
    return (
        names.service.removeprefix(f"{folder}/"),
        names.registration.removeprefix(f"{REGISTRY}/"),
        names.lock.removeprefix(f"{folder}/"),
    )


@pytest.mark.parametrize(
    ("driver", "uid", "names"),
    [
        ("gpu.io", "", ("dra.sock", "gpu.io-reg.sock", "instance.lock")),
        ("gpu.io", UID, (f"dra-{UID}.sock", f"gpu.io-{UID}-reg.sock", f"instance-{UID}.lock")),
        (
            "d" * 29,
            UID,
            (f"dra-{UID}.sock", f"{'d' * 29}-_qzNJc6Gfck-reg.sock", f"instance-{UID}.lock"),
        ),
        (
            "d" * 60,
            UID,
            ("dra-_qzNJc6Gfck.sock", "dra-b1gSpgdOy55scHutwXmmEQ-reg.sock", f"instance-{UID}.lock"),
        ),
    ],
)
def test_names_get_shorter_where_a_path_would_be_too_long(driver: str, uid: str, names: tuple[str, str, str]) -> None:
    assert sockets(driver, uid) == names


def test_107_bytes_are_the_limit() -> None:
    folder = "/" + "f" * (107 - len("//dra.sock"))
    assert instance_sockets("gpu.io", folder, "/r") == InstanceSockets(
        f"{folder}/dra.sock", "/r/gpu.io-reg.sock", f"{folder}/instance.lock"
    )
    with pytest.raises(ValueError, match=r"dra\.sock has 108 bytes, .*: take a shorter folder or driver name"):
        instance_sockets("gpu.io", f"{folder}f", "/r")


@pytest.mark.parametrize(
    ("driver", "uid"),
    [
        ("", ""),
        ("../x", ""),
        ("a/b", ""),
        ("A", ""),
        ("d" * 64, ""),
        ("gpu.io", "../x"),
        ("gpu.io", "a/b"),
        ("a", "\0"),
    ],
)
def test_names_that_leave_the_folder_are_refused(driver: str, uid: str) -> None:
    with pytest.raises(ValueError, match=r"driver name|pod UID"):
        instance_sockets(driver, "/p", "/r", uid)
