"""Matching of taints and tolerations, the same for devices (C-3.6, A-14.2) and nodes. Callers interpret the effect."""

from __future__ import annotations

from virt_dra.api.core_v1 import Taint, Toleration
from virt_dra.api.resource_v1 import DeviceTaint, DeviceToleration


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
