"""A driver whose settings say what it has and how it fails, for scenarios (docs/spec/scenarios.md, "Classic DRA"); like
the witness in tools/control-plane/kubernetes-*/driver on Kubernetes' own library."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from virt_dra.api.core_v1 import Pod
from virt_dra.api.wire import Json
from virt_dra.classic.driver import AllocationRefused, PendingClaim, on_node
from virt_dra.classic.objects import ClassicAllocation, ClassicClaim
from virt_dra.classic.release import ClassicRelease


class ScriptedDriver:
    """Implements :class:`~virt_dra.classic.driver.ClassicDriver`, ``ParametersReader``. ``settings`` may change."""

    def __init__(self, name: str, release: ClassicRelease, settings: Json) -> None:
        self.name = name
        self.settings = settings
        self._handles = release.has_handles
        self._held: dict[str, str] = {}
        """Claim UID -> node."""

    def _left(self, node: str) -> int:
        devices: int = (self.settings.get("devices") or {}).get(node, 0)
        return devices - list(self._held.values()).count(node)

    def _fail(self, call: str) -> None:
        if self.settings.get(call):
            raise AllocationRefused(self.settings[call])

    async def class_parameters(self, resource_class: object) -> None:
        self._fail("classParameters")

    async def claim_parameters(self, claim: ClassicClaim, resource_class: object, class_parameters: object) -> None:
        self._fail("claimParameters")

    async def allocate(
        self, claims: Sequence[PendingClaim], node: str
    ) -> Sequence[ClassicAllocation | AllocationRefused]:
        return [self._allocate(pending.claim.metadata.uid, node) for pending in claims]

    def _allocate(self, uid: str, node: str) -> ClassicAllocation | AllocationRefused:
        if self.settings.get("allocate"):
            return AllocationRefused(self.settings["allocate"])
        if uid not in self._held:
            nodes = [node] if node else sorted(self.settings.get("devices") or {})
            free = next((name for name in nodes if self._left(name) > 0), None)
            if free is None:
                return AllocationRefused("no device left")
            self._held[uid] = free
        held = self._held[uid]
        allocation = on_node(self.name, f"device on {held}", held, shareable=bool(self.settings.get("shareable")))
        return allocation if self._handles else allocation.without("resource_handles")

    async def deallocate(self, claim: ClassicClaim) -> None:
        self._fail("deallocate")
        self._held.pop(claim.metadata.uid, None)

    async def unsuitable_nodes(
        self, pod: Pod, claims: Sequence[PendingClaim], nodes: Sequence[str]
    ) -> Sequence[Collection[str]]:
        self._fail("unsuitableNodes")
        held = [self._held.get(pending.claim.metadata.uid) for pending in claims]
        wanted = held.count(None)
        bad = [node for node in nodes if any(at not in (None, node) for at in held) or wanted > self._left(node)]
        return [bad for _ in claims]
