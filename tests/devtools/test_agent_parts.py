"""The pure parts of the tests' own drivers and kubelets: descriptions of hardware, fields, volumes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from virt_dra.api.core_v1 import Container, EnvVar, Pod, PodSpec
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.resource_v1 import DeviceTaint
from virt_dra.simulator.agents.containers import MountClash, write_mounted_file, write_volume
from virt_dra.simulator.agents.downward import UnsupportedField, environment, field_value
from virt_dra.simulator.agents.hardware import Gadget, HardwarePool, mdev_devices, pci_devices


def test_descriptions_of_hardware() -> None:
    first, *_, last = pci_devices(40, bus=0xFF, key="gpu.example.com/address", model="a100")
    assert first == Gadget(
        "gpu-0", {"model": "a100", "gpu.example.com/address": "0000:ff:00.0"},
        metadata={"model": "a100", "resource.kubernetes.io/pciBusID": "0000:ff:00.0"},
    )  # fmt: skip
    assert last.attributes["gpu.example.com/address"] == "0001:00:07.0"
    uuids = {gadget.attributes["mdevUUID"] for gadget in (*mdev_devices(3), *mdev_devices(3, prefix="other"))}
    assert len(uuids) == 6
    with pytest.raises(ValueError, match="per_slice must be 1 to 64, not 128"):
        HardwarePool("d", "p", (replace(first, taints=(DeviceTaint(key="k", effect="NoSchedule"),)),), per_slice=128)
    with pytest.raises(ValueError, match="pool p: device names must differ: gpu-0, gpu-0"):
        HardwarePool("d", "p", (first, first))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "vm"),
        ("metadata.annotations['example.com/A']", "x\ty"),
        ("metadata.annotations['example.com/missing']", ""),
        ("metadata.annotations", 'b="1"\nexample.com/A="x\\ty"'),
        ("metadata.labels['l']", "v"),
    ],
)
def test_fields_read_as_kubelets_read_them(path: str, value: str) -> None:
    assert field_value(told_pod(), path) == value


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("spec.nodeName", "unsupported fieldPath: spec.nodeName"),
        ("status.podIP['x']", 'fieldPath "status.podIP" does not support subscript'),
    ],
)
def test_fields_that_volumes_cannot_show(path: str, message: str) -> None:
    with pytest.raises(UnsupportedField) as refused:
        field_value(told_pod(), path)
    assert str(refused.value) == message


def told_pod() -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name="vm", namespace="test", annotations={"example.com/A": "x\ty", "b": "1"}, labels={"l": "v"}
        ),
        spec=PodSpec(node_name="node-1"),
    )


def test_variables_expand_what_is_known_before() -> None:
    field = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    given = [("A", "a"), ("B", "$(A)$(C)$$(A)$x"), ("C", "c"), ("E", None)]
    container = Container(
        env=(*(EnvVar(name=name, value=value) for name, value in given), EnvVar(name="N", value_from=field))
    )
    assert environment(told_pod(), container) == {"A": "a", "B": "a$(C)$(A)$x", "C": "c", "E": "", "N": "node-1"}


def test_a_volume_changes_at_once_and_files_that_are_no_longer_named_go(tmp_path: Path) -> None:
    assert write_volume(tmp_path, {"a": "1", "b/c": "2"})
    assert not write_volume(tmp_path, {"a": "1", "b/c": "2"})
    assert write_volume(tmp_path, {"b/c": "3"})
    shown = sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".."))
    assert (shown, (tmp_path / "b" / "c").read_text()) == (["b"], "3")


def test_a_drivers_file_cannot_be_mounted_into_a_volume(tmp_path: Path) -> None:
    with pytest.raises(MountClash, match="can't be mounted: /base/claim/gpu is volume shim"):
        write_mounted_file(tmp_path, "/base/claim/gpu/d-metadata.json", "{}", {"/base/claim/gpu": "shim"})
