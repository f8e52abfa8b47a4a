"""VMs that ask for devices by a line in a run: what is admitted, and what isn't."""

from __future__ import annotations

import pytest

from tests.simulator.test_preferred_alignment import Json, published, ran, vm
from virt_dra.simulator.outcome import HandOver

FIELD = "spec.template.metadata.annotations[virt-dra.io/devices]"


def asking(line: str) -> Json:
    made = vm("vm")
    made["spec"]["template"]["metadata"]["annotations"]["virt-dra.io/devices"] = line
    return made


@pytest.mark.parametrize(
    ("line", "reason", "message"),
    [
        ("pear", "FieldValueNotFound", 'Not found: "pear": there is no DeviceProfile of this name; did you mean pair?'),
        (
            "gpu = pair x two",
            "FieldValueInvalid",
            'Invalid value: "gpu = pair x two": each item is [NAME=]PROFILE[ x COPIES], such as gpu=nvidia-h100 x 2',
        ),
    ],
)
def test_a_vm_whose_line_is_refused_is_not_admitted(line: str, reason: str, message: str) -> None:
    (outcome,) = ran(published(("gpu-0", "gpu", "a"), ("nic-0", "nic", "a")), asking(line))
    assert outcome.failure is not None
    assert (outcome.failure.step, outcome.failure.reason, outcome.failure.message) == (
        HandOver.ADMISSION,
        reason,
        f"{FIELD}: {message}",
    )


def test_a_vm_gets_the_devices_of_its_line() -> None:
    (outcome,) = ran(published(("gpu-0", "gpu", "a"), ("nic-0", "nic", "a")), asking("left=pair"))
    assert {device.device: device.allocated for device in outcome.devices} == {
        "gpus/left-gpu": "d.example.com/n1/gpu-0",
        "hostDevices/left-nic": "d.example.com/n1/nic-0",
    }
