"""Which taints a toleration covers: one rule for devices (C-3.6, A-14.2) and nodes. What a taint's effect means is the caller's matter."""

from __future__ import annotations

from virt_dra.api.core_v1 import Taint, Toleration
from virt_dra.api.resource_v1 import DeviceTaint, DeviceToleration


def tolerates(toleration: DeviceToleration | Toleration, taint: DeviceTaint | Taint) -> bool:
    """An empty effect or key covers every one; an empty operator is Equal; an unknown operator covers nothing."""
    if not concerns(toleration, taint):
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def concerns(toleration: DeviceToleration | Toleration, taint: DeviceTaint | Taint) -> bool:
    """Whether effect and key agree, so that the operator decides."""
    return toleration.effect in ("", taint.effect) and toleration.key in ("", taint.key)
