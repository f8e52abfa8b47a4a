"""Which pods are to be bound to which node once their victims are gone: less important ones leave them the place."""

from __future__ import annotations

from collections.abc import Iterable

from virt_dra.api.core_v1 import Pod


class Nominations:
    """One node per pod."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, Pod]] = {}
        """Pods by UID, by the name of their node."""
        self._node_of: dict[str, str] = {}

    def nominate(self, pod: Pod, node: str) -> None:
        """Replaces an earlier nomination of the pod."""
        self.forget(pod.metadata.uid)
        self._node_of[pod.metadata.uid] = node
        self._of.setdefault(node, {})[pod.metadata.uid] = pod

    def forget(self, uid: str) -> None:
        """Withdraws the pod's nomination, if it has one."""
        node = self._node_of.pop(uid, None)
        if node is not None:
            del self._of[node][uid]
            if not self._of[node]:
                del self._of[node]

    def node_of(self, uid: str) -> str | None:
        return self._node_of.get(uid)

    def on(self, node: str) -> Iterable[Pod]:
        return self._of.get(node, {}).values()
