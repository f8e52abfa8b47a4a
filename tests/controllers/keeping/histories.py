"""A world of two VMs that keep their devices, two nodes with a GPU each, and a thief that wants both, on the embedded
cluster; and the model of ten lines that says who must have which GPU."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final

from tests.controllers.keeping.stores import filled_stores
from tests.controllers.operator.ambient import ambient
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.keeping.claims import is_vm_reference, kept_claim_name
from virt_dra.api.keeping.instances import kept_instance
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.resource_v1 import FINALIZER, ResourceClaim, ResourceClaimTemplate
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import NotFound
from virt_dra.controllers.keeping.loop import KeeperSettings, KeepingLoop
from virt_dra.controllers.loops.claims import reconcile as run_claim_controller
from virt_dra.controllers.loops.virtual_machines import instance_of
from virt_dra.model.usage import claim_node
from virt_dra.operator.keeper_metrics import KeeperMetrics

KEEP, RELEASE = "virt-dra.io/keep-devices", "virt-dra.io/release-requested"
VMS: Final = ("a", "b")
NODES: Final = ("n1", "n2")
LEASE: Final = {"a": None, "b": timedelta(hours=2)}
NODE_LOSS: Final = timedelta(hours=1)
KINDS: Final[tuple[type[Any], ...]] = (
    VirtualMachine,
    VirtualMachineInstance,
    ResourceClaim,
    ResourceClaimTemplate,
    Node,
)
REQUESTS: Final = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}


class Model:
    """Who must have which GPU: promised once the keeper has seen a VM with it, until a reason ends the promise."""

    def __init__(self) -> None:
        self.promised: dict[str, str] = {}
        self.stopped_since: dict[str, datetime] = {}
        self.lost_since: dict[str, datetime] = {}

    def keeper_saw(self, vm: str, has: str, *, runs: bool, uses: bool, keeps: bool, asked: bool, away: bool,
                   now: datetime) -> None:  # fmt: skip
        """``has``: the node of the GPU that the VM's kept claim is allocated; ``keeps``: by the VMI that it runs as,
        else by its annotation; ``asked``: for a release."""
        lease = LEASE[vm]
        over = lease is not None and vm in self.stopped_since and now - self.stopped_since[vm] >= lease
        lost = away and vm in self.lost_since and now - self.lost_since[vm] >= NODE_LOSS
        released = not uses and (not keeps or lost or (not runs and (asked or over)))
        for marks, holds in ((self.stopped_since, not runs and not uses), (self.lost_since, away)):
            if holds and has and not released:
                marks.setdefault(vm, now)
            else:
                marks.pop(vm, None)
        if released:
            self.promised.pop(vm, None)
        elif has and keeps:
            self.promised[vm] = has


class World:
    def __init__(self) -> None:
        self.now = datetime(2026, 11, 24, tzinfo=UTC)
        names, uids = count(1), count(1)
        self.cluster = MemoryCluster(lambda: self.now, lambda: f"x{next(names)}", lambda: f"uid-{next(uids)}")
        self.model = Model()
        self._keeper = KeepingLoop(self.cluster, KeeperSettings(), ambient(lambda: self.now), KeeperMetrics())

    async def begin(self) -> None:
        for node in NODES:
            await self.cluster.create(Node.from_wire({"metadata": {"name": node}}))
        spec = {"spec": {"spec": REQUESTS}}
        for name in ("one-gpu", "other-gpu"):
            wire = {"metadata": {"name": name, "namespace": "lab"}, **spec}
            await self.cluster.create(ResourceClaimTemplate.from_wire(wire))

    # --- what users and KubeVirt do ---

    async def get(self, kind: type[Any], name: str) -> Any:
        try:
            return await self.cluster.get(kind, name, "lab")
        except NotFound:
            return None

    async def create_vm(self, name: str, *, keeps: bool) -> None:
        if await self.get(VirtualMachine, name) is None:
            lease = {"a": "true", "b": "2h"}[name]
            template = {"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}}
            await self.cluster.create(
                VirtualMachine.from_wire(
                    {"metadata": {"name": name, "namespace": "lab", "annotations": {KEEP: lease} if keeps else {}},
                     "spec": {"runStrategy": "Manual", "template": template}}
                )
            )  # fmt: skip

    async def turn(self, name: str, *, keeps: bool) -> None:
        value = {"a": "true", "b": "2h"}[name] if keeps else None
        if await self.get(VirtualMachine, name) is not None:
            merge = {"metadata": {"annotations": {KEEP: value}}}
            await self.cluster.patch(VirtualMachine, name, "lab", merge=merge)

    async def start(self, name: str) -> None:
        vm = await self.get(VirtualMachine, name)
        if vm is None or await self.get(VirtualMachineInstance, name) is not None:
            return
        vmi = kept_instance(instance_of(vm), {}, {}, vm.metadata.annotations)
        stored = await self.cluster.create(vmi)
        owner = {"apiVersion": "kubevirt.io/v1", "kind": vmi.KIND, "name": name, "uid": stored.metadata.uid}
        pod: Json = {
            "metadata": {
                "name": f"launcher-{name}-{stored.metadata.uid}", "namespace": "lab",
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": {"resourceClaims": [entry.to_wire() for entry in vmi.spec.resource_claims]},
        }  # fmt: skip
        await self.cluster.create(Pod.from_wire(pod))

    async def delete(self, kind: type[Any], name: str) -> None:
        if await self.get(kind, name) is not None:
            await self.cluster.delete(kind, name, "lab")

    async def ask_release(self, name: str) -> None:
        claim = kept_claim_name(name, "gpu")
        if await self.get(ResourceClaim, claim) is not None:
            merge = {"metadata": {"annotations": {RELEASE: "now"}}}
            await self.cluster.patch(ResourceClaim, claim, "lab", merge=merge)

    async def cordon(self, node: str, *, cordoned: bool) -> None:
        await self.cluster.patch(Node, node, merge={"spec": {"unschedulable": cordoned or None}})

    # --- what the control plane does ---

    async def run_claims(self) -> None:
        await run_claim_controller(self.cluster)

    async def schedule(self) -> None:
        """Give waiting pods their claims' GPUs, as kube-scheduler does: a claim that is allocated decides the node."""
        await self.run_claims()
        for pod in (await self.cluster.list(Pod, "lab")).items:
            names = [name.partition("/")[2] for name in pod.claim_keys]
            if pod.spec.node_name or pod.metadata.deletion_timestamp or not names:
                continue
            claim = await self.get(ResourceClaim, names[0])
            if claim is None or claim.metadata.deletion_timestamp is not None:
                continue
            node = claim_node(claim) or next(iter(await self._free()), "")
            if not node or (await self.cluster.get(Node, node)).spec.unschedulable:
                continue
            await self._allocate(claim, node, {"resource": "pods", "name": pod.name, "uid": pod.metadata.uid})
            await self.cluster.bind(pod, node)

    async def _free(self) -> list[str]:
        claims = (await self.cluster.list(ResourceClaim)).items
        taken = {claim_node(claim) for claim in claims}
        nodes = (await self.cluster.list(Node)).items
        return [node.name for node in nodes if node.name not in taken and not node.spec.unschedulable]

    async def _allocate(self, claim: ResourceClaim, node: str, consumer: Json) -> None:
        if FINALIZER not in claim.metadata.finalizers:
            finalizers = (*claim.metadata.finalizers, FINALIZER)
            claim = await self.cluster.update(claim.with_(metadata=claim.metadata.with_(finalizers=finalizers)))
        on_node = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        status = claim.status.to_wire()
        status["allocation"] = {
            "devices": {"results": [{"request": "r", "driver": "gpu.example.com", "pool": node, "device": "gpu"}]},
            "nodeSelector": {"nodeSelectorTerms": [on_node]},
        }
        status["reservedFor"] = [*status.get("reservedFor", []), consumer]
        await self.cluster.update_status(ResourceClaim.from_wire({**claim.to_wire(), "status": status}))

    async def steal(self) -> None:
        """The thief takes every GPU that is free."""
        await self.run_claims()
        for node in await self._free():
            wire = {"metadata": {"name": f"thief-{node}", "namespace": "lab"}, "spec": REQUESTS}
            claim = await self.cluster.create(ResourceClaim.from_wire(wire))
            spec = {"nodeName": node, "resourceClaims": [{"name": "gpu", "resourceClaimName": claim.name}]}
            pod = {"metadata": {"name": claim.name, "namespace": "lab"}, "spec": spec}
            made = await self.cluster.create(Pod.from_wire(pod))
            await self._allocate(claim, node, {"resource": "pods", "name": made.name, "uid": made.metadata.uid})

    async def give_back(self) -> None:
        for node in NODES:
            await self.delete(Pod, f"thief-{node}")
            await self.delete(ResourceClaim, f"thief-{node}")
        await self.run_claims()

    async def keep(self, vms: Iterable[str] = VMS) -> None:
        """One pass of the keeper, and of the model over what the keeper saw."""
        for name in vms:
            await self._model_sees(name)
            for _ in range(4):  # a release and a new claim are two reconciles
                objects = [obj for kind in KINDS for obj in (await self.cluster.list(kind)).items]
                self._keeper._stores = filled_stores(objects)
                result, _ = await self._keeper._reconcile(f"lab/{name}")
                assert result != "refused"
                if result in ("unchanged", "gone"):
                    break
                await self.run_claims()

    async def _model_sees(self, name: str) -> None:
        vm = await self.get(VirtualMachine, name)
        if vm is None:
            self.model.promised.pop(name, None)
            self.model.stopped_since.pop(name, None)
            self.model.lost_since.pop(name, None)
            return
        vmi = await self.get(VirtualMachineInstance, name)
        claim = await self.get(ResourceClaim, kept_claim_name(name, "gpu"))
        owner = claim.metadata.controller_owner if claim is not None else None
        if owner is None or owner.uid != vm.metadata.uid:
            self.model.promised.pop(name, None)
            self.model.stopped_since.pop(name, None)
            self.model.lost_since.pop(name, None)
            return
        node = claim_node(claim)
        pods = [consumer for consumer in claim.status.reserved_for if not is_vm_reference(consumer)]
        keeps = (
            KEEP in vm.metadata.annotations if vmi is None else bool(vmi.spec.resource_claims[0].resource_claim_name)
        )
        away = bool(node) and bool((await self.cluster.get(Node, node)).spec.unschedulable)
        self.model.keeper_saw(
            name, node, runs=vmi is not None, uses=bool(pods), keeps=keeps,
            asked=RELEASE in claim.metadata.annotations, away=away, now=self.now,
        )  # fmt: skip

    # --- what must hold ---

    async def check(self) -> None:
        """Nothing that is promised is lost."""
        for name, node in self.model.promised.items():
            vm = await self.get(VirtualMachine, name)
            if vm is None:
                continue  # deleted since the keeper looked
            claim = await self.get(ResourceClaim, kept_claim_name(name, "gpu"))
            assert claim is not None, f"{name} lost its claim"
            assert claim_node(claim) == node, f"{name} lost {node}"

    async def end(self) -> None:
        """Whatever is kept has a VM that asks for it; and once the VMs are gone nothing is left."""
        await self.keep()
        for claim in (await self.cluster.list(ResourceClaim)).items:
            for consumer in filter(is_vm_reference, claim.status.reserved_for):
                vm = await self.get(VirtualMachine, consumer.name)
                assert vm is not None
                assert vm.metadata.uid == consumer.uid
        for name in VMS:
            await self.delete(VirtualMachine, name)
        for pod in (await self.cluster.list(Pod)).items:
            await self.delete(Pod, pod.name)
        await self.run_claims()
        await self.keep()
        await self.give_back()
        assert [claim.name for claim in (await self.cluster.list(ResourceClaim)).items] == []
