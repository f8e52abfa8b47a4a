"""From a VirtualMachine to its VMI."""

from __future__ import annotations

import pytest

from virt_dra.api.kubevirt_v1 import VirtualMachine
from virt_dra.api.wire import Json
from virt_dra.controllers.loops.virtual_machines import instance_of, wants_instance

TEMPLATE = {
    "metadata": {"name": "ignored", "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["x/y"]},
    "spec": {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}], "unknown": {"kept": 1}},
}


def _vm(**spec: object) -> VirtualMachine:
    metadata = {"name": "vm", "namespace": "ns", "uid": "u", "labels": {"of": "the-vm"}}
    return VirtualMachine.from_wire({"metadata": metadata, "spec": {"template": TEMPLATE, **spec}})


def test_the_vmi_has_the_templates_content_and_the_vms_name() -> None:
    assert instance_of(_vm()).to_wire() == {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {
            "name": "vm",
            "namespace": "ns",
            "labels": {"a": "b"},
            "annotations": {"c": "d"},
            "ownerReferences": [
                {
                    "apiVersion": "kubevirt.io/v1",
                    "kind": "VirtualMachine",
                    "name": "vm",
                    "uid": "u",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": TEMPLATE["spec"],
    }


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, True),
        ({"running": True}, True),
        ({"running": False}, False),
        ({"runStrategy": "Always"}, True),
        ({"runStrategy": "RerunOnFailure"}, True),
        ({"runStrategy": "Once"}, True),
        ({"runStrategy": "Halted"}, False),
        ({"runStrategy": "Manual"}, False),
    ],
)
def test_which_vms_run(spec: Json, wanted: bool) -> None:
    assert wants_instance(_vm(**spec)) is wanted


def test_a_vm_being_deleted_does_not_run() -> None:
    vm = _vm()
    assert not wants_instance(vm.with_(metadata=vm.metadata.with_(deletion_timestamp="2026-01-01T00:00:00Z")))
