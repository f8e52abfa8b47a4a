"""What KubeVirt's webhooks let in and what they change (K-2, K-9.2 to K-9.5). Pure functions; :mod:`.kubevirt_webhooks`
serves them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import V1_9_0, Gates
from virt_dra.api.schemas.kubevirt_schema import schema_of
from virt_dra.api.schemas.walk import rewritten
from virt_dra.api.wire import Json, WireError
from webhooks.rules.features import RESERVED_LABELS
from webhooks.stored import as_validated
from webhooks.verdict import NOT_SUPPORTED, AdmissionCause, Verdict
from webhooks.vmi import review

FINALIZER: Final = "kubevirt.io/foregroundDeleteVirtualMachine"
TOPOLOGY_ANNOTATION: Final = "kubevirt.io/pci-topology-version"
TOPOLOGY: Final = "v3"
RUNTIME_USER: Final = 107
ACCOUNTS: Final = (
    "kubevirt-apiserver",
    "kubevirt-controller",
    "kubevirt-handler",
    "kubevirt-synchronization-controller",
)
"""Whose writes are KubeVirt's own. The operator's account isn't among them (K-9.2)."""

Operation = Literal["CREATE", "UPDATE"]


@dataclass(frozen=True)
class KubeVirtAdmission:
    """One KubeVirt: its version and gates, and the namespace of its accounts."""

    gates: Gates
    namespace: str = "kubevirt"

    def account(self, name: str = "kubevirt-controller") -> str:
        """The full name of a ServiceAccount of KubeVirt's."""
        return f"system:serviceaccount:{self.namespace}:{name}"

    def is_kubevirt(self, user: str) -> bool:
        return user in {self.account(name) for name in ACCOUNTS}

    def mutated(self, operation: Operation, user: str, obj: Json, old: Json | None, now: str) -> Json:
        """A VMI or VM (by its kind) as the mutating webhook leaves it."""
        changed = copy.deepcopy(obj)
        if obj.get("kind") == VirtualMachine.KIND:
            return self._written_again(changed, VirtualMachine)
        if operation == "CREATE":
            changed = self._written_again(changed, VirtualMachineInstance)
            self._complete(changed, now)
        elif old is not None and not self.is_kubevirt(user):
            changed.pop("status", None)
            if "status" in old:
                changed["status"] = copy.deepcopy(old["status"])
        return changed

    def _written_again(self, obj: Json, kind: type[VirtualMachine] | type[VirtualMachineInstance]) -> Json:
        """K-2.36, K-2.37: the mutators write the spec again as they read it, with empty values of required fields.

        An object that they can't read they refuse themselves, by a schema with defaults for those fields (K-2.34). Here
        the API server refuses it, so that it must have them, too.
        """
        try:
            spec = as_validated(kind.from_wire(obj), self.gates.version).to_wire().get("spec")
        except WireError:
            spec = obj.get("spec")
        if not isinstance(spec, dict):
            return obj
        return {**obj, "spec": rewritten(spec, schema_of(kind.KIND, self.gates.version).properties["spec"])}

    def _complete(self, vmi: Json, now: str) -> None:
        """K-9.5: a creator's status survives, but for the phase."""
        vmi["status"] = {
            **(vmi.get("status") or {}),
            "phase": "Pending",
            "phaseTransitionTimestamps": [{"phase": "Pending", "phaseTransitionTimestamp": now}],
            "runtimeUser": RUNTIME_USER,
        }
        metadata = vmi.setdefault("metadata", {})
        finalizers = metadata.get("finalizers") or []
        if FINALIZER not in finalizers:
            metadata["finalizers"] = [*finalizers, FINALIZER]
        if self.gates.version >= V1_9_0:
            metadata["annotations"] = {**(metadata.get("annotations") or {}), TOPOLOGY_ANNOTATION: TOPOLOGY}

    def judged(self, operation: Operation, user: str, obj: Json, old: Json | None) -> Verdict:
        """Review a VM or VMI by the validating webhooks."""
        outsider = not self.is_kubevirt(user)
        if obj.get("kind") == VirtualMachine.KIND:
            return review(VirtualMachine.from_wire(obj), self.gates, outsider=outsider)
        if operation == "CREATE":
            return review(VirtualMachineInstance.from_wire(obj), self.gates, outsider=outsider)
        return self._judged_update(user, obj, old or {})

    def _judged_update(self, user: str, obj: Json, old: Json) -> Verdict:
        if self.is_kubevirt(user):
            return Verdict(allowed=True)
        # Compared as KubeVirt reads them: an empty list equals none.
        if VirtualMachineInstance.from_wire(obj).spec.to_wire() != VirtualMachineInstance.from_wire(old).spec.to_wire():
            return _refused("update of VMI object is restricted")
        if any(_labels(obj).get(label) != _labels(old).get(label) for label in RESERVED_LABELS):
            return _refused(
                "modification of the following reserved kubevirt.io/ labels on a VMI object is prohibited",
                "metadata.labels",
            )
        return Verdict(allowed=True)


def _labels(obj: Json) -> Mapping[str, str]:
    labels: Mapping[str, str] = (obj.get("metadata") or {}).get("labels") or {}
    return labels


def _refused(message: str, field: str = "") -> Verdict:
    return Verdict(allowed=False, causes=(AdmissionCause(NOT_SUPPORTED, message, field),))


def patch_between(before: Json, after: Json) -> tuple[Json, ...]:
    """Operations (RFC 6902) for what :meth:`KubeVirtAdmission.mutated` changes: spec, status, finalizers,
    annotations."""
    operations: list[Json] = []
    for holder, members in ((("metadata",), ("finalizers", "annotations")), ((), ("spec", "status"))):
        old, other = before, after
        for step in holder:
            old, other = old.get(step) or {}, other.get(step) or {}
        for member in members:
            path = "/" + "/".join((*holder, member))
            if member in other and old.get(member) != other[member]:
                operations.append({"op": "add", "path": path, "value": other[member]})
            elif member in old and member not in other:
                operations.append({"op": "remove", "path": path})
    return tuple(operations)
