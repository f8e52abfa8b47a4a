"""The gates of a Kubernetes 1.37 (A-2, C-2.1, C-2.2)."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from virt_dra.api.feature_gates import PLAIN, FeatureGateError, FeatureGates


def test_a_plain_cluster_has_what_is_ga_or_beta_except_fractional_ranges() -> None:
    on = {field.name for field in fields(FeatureGates) if getattr(PLAIN, field.name)}
    assert on == {
        "admin_access",
        "prioritized_list",
        "device_status",
        "extended_resource",
        "device_taints",
        "device_taint_rules",
        "consumable_capacity",
        "device_binding_conditions",
        "partitionable_devices",
        "scheduler_filter_timeout",
        "granular_status_authorization",
        "resource_health_status",
        "resource_health_status_message",
    }


@pytest.mark.parametrize(
    ("text", "gates"),
    [
        ("", PLAIN),
        ("DRAListTypeAttributes=true", replace(PLAIN, list_type_attributes=True)),
        (
            " DRADeviceTaints = false , DRADeviceTaintRules=F,",
            replace(PLAIN, device_taints=False, device_taint_rules=False),
        ),
        ("DRAListTypeAttributes=true,DRAListTypeAttributes=0", PLAIN),
        ("DRAAdminAccess=true", PLAIN),
        (str(FeatureGates.all()), FeatureGates.all()),
        (str(PLAIN), PLAIN),
    ],
)
def test_gates_are_read_as_components_read_them(text: str, gates: FeatureGates) -> None:
    assert FeatureGates.parse(text) == gates


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("DRAAdminAccess=false", ("cannot set feature gate DRAAdminAccess to false, feature is locked to true",)),
        ("DRAListTypeAttributes", ("missing bool value for DRAListTypeAttributes",)),
        ("DRAListTypeAttributes=on", ("invalid value of DRAListTypeAttributes=on: write true or false",)),
        (
            "DRAConsumableCapacity=false,DRAFractionalCapacityRange=true",
            (
                "DRAFractionalCapacityRange is enabled, but depends on features "
                "that are disabled: [DRAConsumableCapacity]",
            ),
        ),
        (
            "DRADeviceTaints=false",
            ("DRADeviceTaintRules is enabled, but depends on features that are disabled: [DRADeviceTaints]",),
        ),
        (
            "DRAPartitionableDevicesType=true,DRAPartitionableDevices=false",
            (
                "DRAPartitionableDevicesType is enabled, but depends on features that are disabled: "
                "[DRAPartitionableDevices DRAResourcePoolStatus]",
            ),
        ),
    ],
)
def test_gates_that_no_component_starts_with_are_refused(text: str, problems: tuple[str, ...]) -> None:
    with pytest.raises(FeatureGateError) as refused:
        FeatureGates.parse(text)
    assert refused.value.problems == problems


def test_an_unknown_gate_is_told_with_the_known_ones() -> None:
    with pytest.raises(
        FeatureGateError, match=r"^unrecognized feature gate: DRAmatic; known are DRAAdminAccess, DRAPrioritizedList, "
    ):
        FeatureGates.parse("DRAmatic=true")
