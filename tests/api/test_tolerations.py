"""Which taints a toleration covers (C-3.6, A-14.2)."""

from __future__ import annotations

import pytest

from virt_dra.api.core_v1 import Taint, Toleration
from virt_dra.api.resource_v1 import DeviceTaint, DeviceToleration
from virt_dra.api.tolerations import tolerates
from virt_dra.api.wire import Json


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({}, False),
        ({"value": "v"}, True),
        ({"key": "k", "value": "v", "operator": "Equal", "effect": "NoExecute"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "l", "operator": "Exists"}, False),
        ({"key": "k", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "k", "value": "v", "operator": "Like"}, False),
        ({"key": "k", "value": "v", "operator": "exists"}, False),
        ({"operator": "Exists", "value": "other"}, True),
        ({"key": "K", "operator": "Exists"}, False),
    ],
)
def test_what_a_toleration_covers(toleration: Json, tolerated: bool) -> None:
    taint = {"key": "k", "value": "v", "effect": "NoExecute"}
    assert tolerates(DeviceToleration.from_wire(toleration), DeviceTaint.from_wire(taint)) is tolerated
    assert tolerates(Toleration.from_wire(toleration), Taint.from_wire(taint)) is tolerated
