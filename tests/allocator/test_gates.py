"""What the allocator may do follows from the cluster's feature gates (A-2)."""

from __future__ import annotations

from dataclasses import replace

from virt_dra.allocator.gates import DEFAULT, Features
from virt_dra.api.feature_gates import PLAIN, FeatureGates


def test_the_defaults_are_those_of_a_plain_cluster() -> None:
    assert Features.from_gates(PLAIN) == DEFAULT
    assert not DEFAULT.fractional_capacity_range
    assert not DEFAULT.experimental


def test_every_gate_makes_every_feature() -> None:
    assert Features.from_gates(FeatureGates.all()) == Features.all()


def test_binding_conditions_need_two_gates() -> None:
    for gate in ("device_status", "device_binding_conditions"):
        off = Features.from_gates(replace(FeatureGates.all(), **{gate: False}))
        assert off == replace(Features.all(), device_binding_and_status=False)
