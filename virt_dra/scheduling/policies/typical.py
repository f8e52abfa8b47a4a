"""The typical workload of `least-fragmentation`, from the VMs that are there, or expected."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property

from virt_dra.allocator import AllocationError, Allocator, Features, Interrupt, NodeError, Snapshot
from virt_dra.allocator.model import RequestPlan
from virt_dra.api.core_v1 import Node
from virt_dra.scheduling.policies.cards import CardCatalog, NodeCards
from virt_dra.scheduling.policies.fragmentation import ClaimsNeed, RequestNeed, TypicalVm, TypicalWorkload
from virt_dra.scheduling.policies.placer import VmShape

_NEVER: ClaimsNeed = (RequestNeed(1, {}),)
"""The need that no node can serve: on nodes with broken pools, and of claims whose selectors fail."""


class TypicalVms:
    """The typical workload of a cluster, and how much of the cluster's cards its VMs ask for."""

    def __init__(
        self,
        shapes: Mapping[VmShape, int],
        nodes: Sequence[Node],
        snapshot: Snapshot,
        catalog: CardCatalog,
        features: Features,
        interrupt: Interrupt | None = None,
    ) -> None:
        """``shapes``: how many VMs of each there are. Those with equal claims count as one kind of devices; those whose
        claims break a rule are left out, since they can be placed nowhere. ``catalog``: of the snapshot's slices.
        ``interrupt`` ends the evaluation of a kind's selectors; that kind then counts as one that no node serves."""
        self._nodes = nodes
        self._needs = _Needs(nodes, catalog, snapshot, features, interrupt)
        self._kinds: dict[VmShape, int] = {}
        self._asked: dict[int, int] = {}
        vms: list[TypicalVm] = []
        for shape, weight in shapes.items():
            kind = self._needs.kind(shape)
            if kind is not None:
                self._kinds[shape] = kind
                vms.append(TypicalVm(kind, shape.cpu, shape.memory, weight))
        self.workload = TypicalWorkload(vms, lambda cards, devices: self._needs.on(cards.reachable.node, devices))

    def asked(self, shape: VmShape) -> int:
        """The least thousandths of cards that a VM of the shape takes on a node that serves it; 0 if none does."""
        kind = self._kinds.get(shape)
        if kind is None:
            return 0
        if kind not in self._asked:
            needs = {id(need): need for need in (self._needs.on(node.name, kind) for node in self._nodes)}
            possible = [need for need in needs.values() if all(request.shares for request in need)]
            self._asked[kind] = min(
                [sum(request.count * min(request.shares.values()) for request in need) for need in possible], default=0
            )
        return self._asked[kind]

    @cached_property
    def least_demanding(self) -> Sequence[tuple[int, int, int]]:
        """The thousandths of cards, cpu and memory of the VMs that ask for least cpu or memory for a card."""
        asking = {(self.asked(shape), shape.cpu, shape.memory) for shape in self._kinds}
        least: list[tuple[int, int, int]] = []
        for cards, cpu, memory in sorted(
            (need for need in asking if need[0]), key=lambda need: (need[1] / need[0], need[2] / need[0])
        ):
            if not least or memory * least[-1][0] < least[-1][2] * cards:
                least.append((cards, cpu, memory))
        return least


class _Needs:
    """What each kind of claims needs of a node; one object for nodes of one class and layout."""

    def __init__(
        self,
        nodes: Sequence[Node],
        catalog: CardCatalog,
        snapshot: Snapshot,
        features: Features,
        interrupt: Interrupt | None,
    ) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._catalog = catalog
        self._snapshot = snapshot
        self._features = features
        self._interrupt = interrupt
        self._failed: set[int] = set()
        """Kinds whose selectors fail, or take too long: they mustn't slow down other VMs."""
        self._kinds: dict[tuple[str, ...], int] = {}
        self._allocators: list[Allocator | None] = []
        self._known: dict[Hashable, ClaimsNeed] = {}

    def kind(self, shape: VmShape) -> int | None:
        """The number of the shape's claims; None if they break a rule."""
        key = tuple([claim.spec.model_dump_json(by_alias=True, exclude_unset=True) for claim in shape.claims])
        number = self._kinds.get(key)
        if number is None:
            allocator = (
                Allocator(self._snapshot, shape.claims, self._features, interrupt=self._interrupt)
                if shape.claims
                else None
            )
            if allocator is not None and allocator.pod_class is None:
                return None
            number = self._kinds[key] = len(self._allocators)
            self._allocators.append(allocator)
        return number

    def on(self, name: str, kind: int) -> ClaimsNeed:
        allocator = self._allocators[kind]
        if allocator is None:
            return ()
        if kind in self._failed:
            return _NEVER
        node = self._nodes[name]
        cards = self._catalog.of(allocator.reachable(node))
        try:
            of_node = allocator.outcome_key(node)
            key = (kind, cards if of_node is None else (of_node[0], cards.layout))
            need = self._known.get(key)
            if need is None:
                need = self._known[key] = self._need(allocator, cards, node)
        except NodeError:
            return _NEVER
        except AllocationError:
            self._failed.add(kind)
            return _NEVER
        return need

    def _need(self, allocator: Allocator, cards: NodeCards, node: Node) -> ClaimsNeed:
        pod_class = allocator.pod_class
        if pod_class is None:
            raise AssertionError("claims that break a rule are not typical")
        return tuple(
            [self._of_request(allocator, entry, cards, node) for plan in pod_class.plans for entry in plan.requests]
        )

    def _of_request(self, allocator: Allocator, entry: RequestPlan, cards: NodeCards, node: Node) -> RequestNeed:
        """The least that one of the request's alternatives needs."""
        shares: dict[int, int] = {}
        positions = {device: position for position, device in enumerate(cards.reachable.devices)}
        for slots in entry.alternatives:
            for device in allocator.candidates(slots.request, node):
                for part in cards.layout.parts[positions[device]]:
                    share = self._catalog.taken(slots.request, device, part)
                    if share is not None:
                        shares[part.card] = min(shares.get(part.card, share), share)
        return RequestNeed(min(max(slots.count, 1) for slots in entry.alternatives), shares)
