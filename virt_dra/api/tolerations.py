"""Matching of taints and tolerations, the same for devices (C-3.6, A-14.2) and nodes. Callers interpret the effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from virt_dra.api.core_v1 import Taint, Toleration
from virt_dra.api.resource_v1 import DeviceTaint, DeviceTaintRule, DeviceToleration


def taint_text(taint: DeviceTaint | Taint) -> str:
    """``key=value:effect``, as kubectl writes it."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def tolerates(toleration: DeviceToleration | Toleration, taint: DeviceTaint | Taint) -> bool:
    """True if the toleration covers the taint. An empty effect or key covers all, an empty operator is Equal, an
    unknown one covers nothing."""
    if not concerns(toleration, taint):
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def concerns(toleration: DeviceToleration | Toleration, taint: DeviceTaint | Taint) -> bool:
    """True if effect and key match, so that the operator decides."""
    return toleration.effect in ("", taint.effect) and toleration.key in ("", taint.key)


def untolerated(tolerations: Sequence[DeviceToleration], taints: Iterable[DeviceTaint]) -> Iterator[DeviceTaint]:
    """The taints that keep a request with these tolerations off a device (A-14.2)."""
    for taint in taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not any(
            tolerates(toleration, taint) for toleration in tolerations
        ):
            yield taint


def taints_of_rules(rules: Iterable[DeviceTaintRule], driver: str, pool: str, device: str) -> list[DeviceTaint]:
    """The taints that rules add to a device, in the rules' order. An absent selector selects nothing, an empty one
    everything (A-24.2)."""
    return [
        rule.spec.taint
        for rule in rules
        if (selector := rule.spec.device_selector) is not None
        and selector.driver in (None, driver)
        and selector.pool in (None, pool)
        and selector.device in (None, device)
    ]
