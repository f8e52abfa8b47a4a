"""Whether some node has everything that the VM needs: labels, and devices for every request. Node taints and capacity
are ignored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from virt_dra.api.core_v1 import Node
from virt_dra.api.go_text import quoted
from webhooks.lint.inputs import CLASSES, SLICES
from webhooks.lint.linted import Linted, NamedClaim
from webhooks.verdict import FieldIssue

HOST_NAME = "kubernetes.io/hostname"
SHOWN = 3


@dataclass(frozen=True)
class _Bound:
    """A request whose devices are local to certain nodes."""

    claim: NamedClaim
    request: str
    nodes: frozenset[str]

    def __str__(self) -> str:
        return f"request {quoted(self.request)} of {self.claim}"


def no_usable_node(linted: Linted) -> Iterator[FieldIssue]:
    """Requests whose devices are on no node that fits nodeSelector, or on no node together. Unknown nodes are assumed
    to fit."""
    lacking = _lacking(linted)
    usable: list[_Bound] = []
    for bound in _bound(linted):
        fitting = bound.nodes - lacking.keys()
        if fitting:
            usable.append(_Bound(bound.claim, bound.request, fitting))
            continue
        where = "on nodes that nodeSelector excludes"
        if not linted.settings.at_admission:
            where += ": " + "; ".join(f"{node} lacks {lacking[node]}" for node in sorted(bound.nodes)[:SHOWN])
            where += "; …" if len(bound.nodes) > SHOWN else ""
        yield FieldIssue(
            linted.path("nodeSelector"),
            f"the devices that match {bound} are {where}. Change nodeSelector, or request devices of other nodes",
        )
    common = usable[0].nodes if usable else frozenset()
    for bound in usable[1:]:
        if not common & bound.nodes:
            here, there = (", ".join(sorted(nodes)[:SHOWN]) for nodes in (bound.nodes, common))
            apart = "" if linted.settings.at_admission else f" ({here}; {there})"
            text = f"no node has devices for both {bound} and {usable[0]}{apart}, and a VM runs on one node"
            yield FieldIssue(bound.claim.field, f"{text}. Request devices that some node has together")
            return
        common &= bound.nodes


def pod_refused(linted: Linted) -> Iterator[FieldIssue]:
    """VMs that KubeVirt admits, but whose launcher pod virt-controller can never create (K-3.2, K-4)."""
    why = linted.inputs.trial.pod(linted.expanded, linted.namespace) if linted.inputs.trial is not None else None
    if why is not None:
        yield FieldIssue(
            linted.path("resourceClaims"),
            f"the VM gets no launcher pod: {why}. Correct the fields of the VM that cause it",
        )


def claims_do_not_fit(linted: Linted) -> Iterator[FieldIssue]:
    """Claims that the allocator can't satisfy even on an unused cluster, because of constraints, counters or numbers
    (A-7)."""
    why = _misfit(linted) if linted.claims and {CLASSES, SLICES} <= linted.inputs.known_kinds else None
    if why is not None:
        yield FieldIssue(
            linted.path("resourceClaims"),
            f"no node could serve the VM's claims together, even if no device was in use: {why}. "
            "Request fewer or other devices, change the constraints, or provide a node that has them",
        )


def no_node_fits(linted: Linted) -> Iterator[FieldIssue]:
    """A VM without claims that the scheduler could place on no node even if nothing ran there: for want of room, or
    because of labels and taints. Nodes that aren't given are assumed to fit."""
    why = _misfit(linted) if not linted.claims and linted.inputs.model.nodes else None
    if why is not None:
        yield FieldIssue(
            linted.path("domain"),
            f"no node fits the VM, even if nothing ran there: {why}. Ask for less, change its nodeSelector, affinity "
            "or tolerations, or provide a node that fits",
        )


def _misfit(linted: Linted) -> str | None:
    trial = linted.inputs.trial
    return trial.placement(linted.expanded, linted.namespace) if trial is not None else None


def invalid_domain(linted: Linted) -> Iterator[FieldIssue]:
    """Faults because of which the launcher can't make a libvirt domain of the VM and the devices that it would get
    (K-7)."""
    trial = linted.inputs.trial
    fault = trial.domain(linted.expanded, linted.namespace) if trial is not None else None
    if fault is not None:
        field, message = fault
        path = linted.path(field.removeprefix("spec."))
        yield FieldIssue(path, f"there is no libvirt domain for this VM: {message.removeprefix(f'{field}: ')}")


def _bound(linted: Linted) -> Iterator[_Bound]:
    for claim in linted.claims:
        if claim.allocated is not None:
            inventory = linted.inputs.inventory
            devices = (inventory.get(result.driver, result.pool, result.device) for result in claim.allocated)
            nodes = {device.node for device in devices if device is not None and device.node}
            if nodes:
                yield _Bound(claim, claim.allocated[0].request, frozenset(nodes))
            continue
        for request in dict.fromkeys(option.request for option in claim.options):
            matches = [linted.matching(option) for option in claim.options_of(request)]
            node_sets = [match.set.nodes for match in matches if match is not None and not match.incomplete]
            nodes = set().union(*node_sets)
            if len(node_sets) == len(matches) and nodes and "" not in nodes:
                yield _Bound(claim, request, frozenset(nodes))


def _lacking(linted: Linted) -> Mapping[str, str]:
    """The nodes that don't fit the VM's nodeSelector, each with the first missing label."""
    misfits: dict[str, str] = {}
    wanted = linted.reviewed.spec.node_selector
    for node in linted.all_of(Node) if wanted else ():
        labels = {HOST_NAME: node.name, **node.metadata.labels}
        missing = (f"{key}={value}" for key, value in wanted.items() if labels.get(key) != value)
        if lacking := next(missing, ""):
            misfits[node.name] = lacking
    return misfits
