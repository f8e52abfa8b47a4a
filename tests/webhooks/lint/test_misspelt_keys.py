"""Which attribute keys are taken for a misspelt address key, and which never."""

from __future__ import annotations

import pytest

from virt_dra.api.resource_v1 import Device
from virt_dra.matching.published_slice import SliceDevice
from webhooks.lint.fixes.address_keys import KeyReader, misspelt_keys, moved_keys

PCI = "0000:01:00.0"
MDEV = "12345678-9abc-def0-1234-56789abcdef0"
STANDARD = "resource.kubernetes.io/pciBusID"


def _device(**attributes: str) -> SliceDevice:
    wire = {
        "name": "d",
        "attributes": {
            key.replace("__", "/").replace("_DOT_", "."): {"string": text} for key, text in attributes.items()
        },
    }
    return SliceDevice("gpu.example.com", "pool", Device.from_wire(wire), "node")


@pytest.mark.parametrize(
    ("key", "value", "reader", "wanted"),
    [
        ("pciBusId", PCI, "devices", STANDARD),
        ("pci_bus_id", PCI, "networks", STANDARD),
        ("example_DOT_com__pciBusID", PCI, "devices", STANDARD),
        ("pciBudID", PCI, "devices", STANDARD),
        ("pciBusDI", PCI, "devices", STANDARD),
        ("pciBsID", PCI, "devices", STANDARD),
        ("pciBussID", PCI, "devices", STANDARD),
        ("pciAdress", PCI, "devices", STANDARD),
        ("pciAddr", PCI, "devices", STANDARD),
        ("mdevUuid", MDEV, "devices", "mdevUUID"),
        ("mdevUIUD", MDEV, "old", "resource.kubernetes.io/mDevUUID"),
        ("mdevUuid", MDEV, "networks", None),
        ("pciBusId", "0000:01:00", "devices", None),
        ("pciBusId", MDEV, "devices", None),
        ("pcieRoot", PCI, "devices", None),
        ("parentPciAddress", PCI, "devices", None),
        ("pfPciAddress", PCI, "devices", None),
        ("vfPciAddress", PCI, "devices", None),
        ("uuid", MDEV, "devices", None),
        ("model", PCI, "devices", None),
    ],
)
def test_a_key_that_is_nearly_right(key: str, value: str, reader: KeyReader, wanted: str | None) -> None:
    """K-6.3, K-6.4: the value must be an address, and the key must not be another device's."""
    device = _device(**{key: value})
    repair = misspelt_keys([device], reader)
    written = key.replace("__", "/").replace("_DOT_", ".")
    assert (repair.renames if repair else None) == (((device.name, written, wanted),) if wanted else None)


def test_a_device_with_two_such_keys_or_the_right_one_as_well_is_left_alone() -> None:
    assert misspelt_keys([_device(pciBusId=PCI, pciBudID=PCI)], "devices") is None
    assert misspelt_keys([_device(pciBusId=PCI, resource_DOT_kubernetes_DOT_io__pciBusID="")], "devices") is None
    assert misspelt_keys([_device(pciBusId=PCI), _device(model="T4")], "devices") is None
    assert misspelt_keys([], "devices") is None


def test_an_address_under_another_key_is_renamed_for_who_reads_it() -> None:
    both = _device(gpu_DOT_example_DOT_com__mdevUUID=MDEV, pciAddress=PCI)
    moved = {reader: moved_keys([both], reader) for reader in ("devices", "networks", "old")}
    assert {reader: repair.renames if repair else None for reader, repair in moved.items()} == {
        "devices": ((both.name, "gpu.example.com/mdevUUID", "mdevUUID"),),
        "networks": ((both.name, "pciAddress", STANDARD),),
        "old": ((both.name, "gpu.example.com/mdevUUID", "resource.kubernetes.io/mDevUUID"),),
    }
    assert moved_keys([_device(pciAddress=PCI)], "old") is None
