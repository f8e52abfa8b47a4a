"""Older API versions of resource.k8s.io and kubevirt.io -> v1 and back. (Skeleton: being written.)"""

from __future__ import annotations

from typing import Any


def to_v1(raw: dict[str, Any]) -> dict[str, Any]:
    return raw
