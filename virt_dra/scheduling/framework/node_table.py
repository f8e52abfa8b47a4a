"""The nodes of the cluster, in the order of their names, with the pods that are on each or about to be bound to it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from itertools import count

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.scheduling.framework.nominations import Nominations

_supposed = count(-1, -1)
"""Revisions of hypothetical states, distinct from all others so that no cache takes them for real ones."""


class NodeState:
    """A node and its pods, by UID. ``revision`` grows with every change."""

    __slots__ = ("node", "pods", "revision")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.pods: dict[str, Pod] = {}
        self.revision = 0

    @property
    def name(self) -> str:
        return self.node.name

    def supposing(self, pods: Mapping[str, Pod]) -> NodeState:
        """The node as it would be with these pods, by UID."""
        state = NodeState(self.node)
        state.pods = dict(pods)
        state.revision = next(_supposed)
        return state


class NodeTable:
    """Changed by the scheduler's loop only. Pods may be assigned to a node that isn't known (yet)."""

    def __init__(self) -> None:
        self._states: dict[str, NodeState] = {}
        self._names: list[str] = []
        self._pods: dict[str, dict[str, Pod]] = {}
        """Pods by UID, by the name of their node."""
        self._node_of: dict[str, str] = {}
        self._ordered: tuple[NodeState, ...] | None = None
        self._relating: dict[str, set[str]] = {}
        """By node, the UIDs of its pods with affinity to other pods, or against them."""
        self._shared: set[str] = set()
        """Nodes whose state and pods are shared with a copy of this table: they are copied before they change."""
        self.nominations = Nominations()

    def __len__(self) -> int:
        return len(self._states)

    @property
    def states(self) -> Sequence[NodeState]:
        """By name."""
        if self._ordered is None:
            self._ordered = tuple(self._states[name] for name in self._names)
        return self._ordered

    @property
    def relating(self) -> Sequence[NodeState]:
        """The nodes with pods that have affinity to other pods, or against them; by name."""
        return [self._states[name] for name in sorted(self._relating) if name in self._states]

    def get(self, name: str) -> NodeState | None:
        return self._states.get(name)

    def node_of(self, uid: str) -> str | None:
        """The node that a pod is assigned to."""
        return self._node_of.get(uid)

    def copy(self) -> NodeTable:
        """A table with the same nodes and pods, without nominations. Later changes of one don't reach the other."""
        table = NodeTable()
        table._states, table._names, table._node_of = dict(self._states), list(self._names), dict(self._node_of)
        table._pods, table._ordered = dict(self._pods), self._ordered
        table._relating = {node: set(uids) for node, uids in self._relating.items()}
        self._shared = {*self._states, *self._pods}
        table._shared = set(self._shared)
        return table

    def _own(self, node: str) -> None:
        """Make the state and pods of a node this table's own, before they change."""
        if node not in self._shared:
            return
        self._shared.discard(node)
        if node in self._pods:
            self._pods[node] = dict(self._pods[node])
        before = self._states.get(node)
        if before is not None:
            state = self._states[node] = NodeState(before.node)
            state.pods, state.revision = self._pods.setdefault(node, {}), before.revision
            self._ordered = None

    def put(self, node: Node) -> None:
        """Add or replace a node."""
        self._own(node.name)
        state = self._states.get(node.name)
        if state is None:
            state = self._states[node.name] = NodeState(node)
            state.pods = self._pods.setdefault(node.name, {})
            insort(self._names, node.name)
            self._ordered = None
        state.node = node
        state.revision += 1

    def remove(self, name: str) -> None:
        """Removes the node, if it is there."""
        if self._states.pop(name, None) is not None:
            self._shared.discard(name)
            self._pods[name] = dict(self._pods.get(name, ()))
            del self._names[bisect_left(self._names, name)]
            self._ordered = None

    def assign(self, pod: Pod, node: str) -> None:
        """Puts a pod on a node, and takes it from any other."""
        uid = pod_id(pod)
        before = self._node_of.get(uid)
        if before is not None and before != node:
            self.unassign(uid)
        self._node_of[uid] = node
        self._own(node)
        self._pods.setdefault(node, {})[uid] = pod
        if _relates(pod):
            self._relating.setdefault(node, set()).add(uid)
        else:
            self._forget_relation(node, uid)
        self._changed(node)

    def unassign(self, uid: str) -> Pod | None:
        """Takes a pod from its node. Returns it; None if it had no node."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return None
        self._own(node)
        pod = self._pods[node].pop(uid)
        self._forget_relation(node, uid)
        self._changed(node)
        return pod

    def _forget_relation(self, node: str, uid: str) -> None:
        uids = self._relating.get(node)
        if uids is not None:
            uids.discard(uid)
            if not uids:
                del self._relating[node]

    def _changed(self, node: str) -> None:
        state = self._states.get(node)
        if state is not None:
            state.revision += 1


def pod_id(pod: Pod) -> str:
    """The UID; for a pod of a file that has none, its namespace and name."""
    return pod.metadata.uid or pod.key


def _relates(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and any(
        terms is not None and (terms.required or terms.preferred)
        for terms in (affinity.pod_affinity, affinity.pod_anti_affinity)
    )
