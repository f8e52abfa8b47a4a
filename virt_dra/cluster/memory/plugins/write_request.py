"""One write request as admission plugins see it, and the refusal that they all use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from virt_dra.api.feature_gates import FeatureGates
from virt_dra.api.go_text import quoted
from virt_dra.api.meta import TypedObject
from virt_dra.cluster.kinds import ApiResource
from virt_dra.cluster.memory.authorization.rbac import Stored
from virt_dra.cluster.port import Forbidden
from virt_dra.cluster.requester import Requester

Operation = Literal["CREATE", "UPDATE", "DELETE"]


@dataclass(frozen=True)
class WriteRequest:
    """``old``: the stored object that is updated. A new object's ``name`` may be generated. ``now``: RFC 3339."""

    requester: Requester
    operation: Operation
    resource: ApiResource
    namespace: str
    name: str
    new: TypedObject
    old: TypedObject | None
    stored: Stored
    gates: FeatureGates
    now: str

    def with_object(self, obj: TypedObject) -> WriteRequest:
        return replace(self, new=obj)

    def refused(self, why: str) -> Forbidden:
        return Forbidden(f"{self.resource} {quoted(self.name)} is forbidden: {why}")
