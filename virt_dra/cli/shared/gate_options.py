"""``--feature-gates`` in Kubernetes' syntax: the command behaves as a cluster with these gates would."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final, TypeVar

import click

from virt_dra.api.feature_gates import PLAIN, FeatureGateError, FeatureGates
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.suggestions import suggesting_switches

F = TypeVar("F", bound=Callable[..., Any])

GATE_DEFAULTS: Final = {
    name: value == "true" for name, _, value in (gate.partition("=") for gate in str(PLAIN).split(","))
}
"""Every known gate, with its value in a plain Kubernetes 1.37."""

_GATE_OF: Final = {
    "device_binding_and_status": "device_binding_conditions",
    "compatibility_groups": "device_compatibility_groups",
}
"""Attribute of Features -> that of FeatureGates, where they differ."""

_UNKNOWN: Final = re.compile(r"^unrecognized feature gate: ([^;]*);")


def with_features(gates: FeatureGates, features: Mapping[str, bool]) -> FeatureGates:
    """``gates``, changed so that these features of the allocator (attributes of Features) are on or off."""
    return replace(gates, **{_GATE_OF.get(name, name): enabled for name, enabled in features.items()})


def parse_gates(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> FeatureGates | None:
    """None without the option. Raises BadParameter with every problem."""
    if not values:
        return None
    try:
        return FeatureGates.parse(",".join(values))
    except FeatureGateError as error:
        raise click.BadParameter("; ".join(map(_advised, error.problems))) from None


def _advised(problem: str) -> str:
    """The problem; of an unknown gate with the names that may be meant."""
    unknown = _UNKNOWN.match(problem)
    if unknown is None:
        return problem
    name = unknown[1]
    lowered = {gate.lower(): gate for gate in GATE_DEFAULTS}
    close = get_close_matches(name.lower(), [*lowered, *(gate.removeprefix("dra") for gate in lowered)], n=3)
    meant = dict.fromkeys(lowered.get(gate) or lowered[f"dra{gate}"] for gate in close)
    return f"unrecognized feature gate: {name}; did you mean {' or '.join(meant)}?" if meant else problem


def gates_option(detail: str) -> Callable[[F], F]:
    """``--feature-gates``; its value is a FeatureGates, or None. ``detail``: what the help text says of the command."""
    return shared(
        "--feature-gates", detail=detail, callback=parse_gates, shell_complete=suggesting_switches(GATE_DEFAULTS)
    )


def gates_epilog() -> str:
    """All gates, for a help text."""
    on = ", ".join(name for name, enabled in GATE_DEFAULTS.items() if enabled)
    off = ", ".join(name for name, enabled in GATE_DEFAULTS.items() if not enabled)
    return f"Feature gates that are on in a plain Kubernetes 1.37: {on}; off: {off}."
