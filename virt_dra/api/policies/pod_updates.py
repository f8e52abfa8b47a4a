"""What may change in a pod: gates go, tolerations come, images are exchanged; a gated pod may be narrowed down."""

from __future__ import annotations

from virt_dra.api.core_v1 import Affinity, Container, NodeAffinity, Pod, PodSpec
from virt_dra.api.validation.field_errors import Errors, forbidden, invalid, required
from virt_dra.api.validation.go_values import internal
from virt_dra.api.validation.pods import FIXED_FIELDS, pod


def strict_pod_update(new: Pod, old: Pod) -> Errors:
    """The faults of an update, as a real API server has them. (It also adds the difference to the message.)"""
    yield from pod(new)
    if not new.spec.containers:
        yield required("spec.containers")
    for field, path in (("containers", "spec.containers"), ("init_containers", "spec.initContainers")):
        if len(getattr(new.spec, field)) != len(getattr(old.spec, field)):
            yield forbidden(path, "pod updates may not add or remove containers")
            return
    if any(toleration.with_(toleration_seconds=None) not in _timeless(new.spec) for toleration in old.spec.tolerations):
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    before = {gate.name for gate in old.spec.scheduling_gates}
    for index, gate in enumerate(new.spec.scheduling_gates):
        if gate.name not in before:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.name}'"
            yield forbidden(f"spec.schedulingGates[{index}].name", detail)
    compared = _with_changeable_fields(new.spec, old.spec)
    if old.spec.scheduling_gates:
        yield from _narrowed(compared, old.spec)
        compared = compared.with_(
            node_selector=old.spec.node_selector, affinity=_with_node_affinity_of(old.spec, compared.affinity)
        )
    if compared != old.spec:
        yield forbidden("spec", FIXED_FIELDS)


def _timeless(spec: PodSpec) -> list[object]:
    return [toleration.with_(toleration_seconds=None) for toleration in spec.tolerations]


def _with_changeable_fields(new: PodSpec, old: PodSpec) -> PodSpec:
    """The new spec with the old values of what may change."""

    def imaged(containers: tuple[Container, ...], before: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(container.with_(image=other.image) for container, other in zip(containers, before, strict=True))

    kept = new.with_(
        containers=imaged(new.containers, old.containers),
        init_containers=imaged(new.init_containers, old.init_containers), tolerations=old.tolerations,
        scheduling_gates=old.scheduling_gates,
    )  # fmt: skip
    deadline = (old.model_extra or {}).get("activeDeadlineSeconds")
    kept = kept.without("activeDeadlineSeconds")
    return kept if deadline is None else kept.with_(activeDeadlineSeconds=deadline)


def _narrowed(new: PodSpec, old: PodSpec) -> Errors:
    """A gated pod's node selector and node affinity may only get stricter."""
    if any(new.node_selector.get(key) != value for key, value in old.node_selector.items()):
        rule = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid("spec.nodeSelector", "", rule)
    before, after = _required(old.affinity), _required(new.affinity)
    if before is None:
        return
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    terms = () if after is None or after.required is None else after.required.node_selector_terms
    olds = before.required.node_selector_terms if before.required is not None else ()
    if olds and len(terms) != len(olds):
        shown = internal(after.required) if after is not None and after.required is not None else ""
        yield invalid(path, shown, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")


def _required(affinity: Affinity | None) -> NodeAffinity | None:
    node_affinity = affinity.node_affinity if affinity is not None else None
    return node_affinity if node_affinity is not None and node_affinity.required is not None else None


def _with_node_affinity_of(old: PodSpec, affinity: Affinity | None) -> Affinity | None:
    before = old.affinity.node_affinity if old.affinity is not None else None
    if affinity is None:
        return old.affinity if before is not None else None
    munged = affinity.with_(node_affinity=before)
    return None if old.affinity is None and munged == Affinity() else munged
