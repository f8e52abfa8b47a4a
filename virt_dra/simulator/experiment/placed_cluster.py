"""A cluster whose VMs one policy places."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from virt_dra.allocator import Features
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.snapshots import snapshot_of
from virt_dra.scheduling.fit import namespace_labels, volumes_of
from virt_dra.scheduling.policies.catalog import policy_named
from virt_dra.scheduling.policies.placer import PolicyPlacer, VmShape, card_catalog
from virt_dra.scheduling.policies.policy import NodesOnly, Policy
from virt_dra.scheduling.policies.typical import TypicalVms
from virt_dra.simulator.experiment.measures import CardMeter


class PlacedCluster:
    """The placer of a model's nodes, what is typical of its VMs, and the meter of its cards. The model's own pods and
    claims stay."""

    placer: PolicyPlacer
    typical: TypicalVms
    meter: CardMeter

    def __init__(
        self,
        model: ClusterModel,
        nodes: Sequence[Node],
        vms: Mapping[VmShape, int],
        policy: str,
        draw: Callable[[], float],
        features: Features,
        *,
        nodes_only: bool = False,
        whole_per_cent: bool = False,
    ) -> None:
        """``nodes``: the model's, in the order in which equal ones are preferred; ``vms``: how many there are or will
        be of each shape. Raises KeyError for an unknown policy, FatalError for slices that can't be read."""
        self.nodes = tuple(nodes)
        self._vms, self._policy, self._draw = vms, policy, draw
        self._features, self._nodes_only, self._whole_per_cent = features, nodes_only, whole_per_cent
        snapshot = snapshot_of(model, features)
        catalog = card_catalog(snapshot, features)
        self.typical = TypicalVms(vms, nodes, snapshot, catalog, features)
        labels_of, knows_all = namespace_labels(model), model.knows_all(Pod)
        self.placer = PolicyPlacer(
            snapshot,
            nodes,
            self._chosen(),
            catalog,
            features,
            labels_of=labels_of,
            knows_all_pods=knows_all,
            volumes=volumes_of(model),
        )
        numbers = {node.name: number for number, node in enumerate(nodes)}
        for pod in model.of(Pod):
            number = numbers.get(pod.spec.node_name or "") if pod.takes_room else None
            if number is not None:
                self.placer.use_pod(number, pod, 1)
        self.meter = CardMeter(self.placer, self.typical)

    def publish(self, model: ClusterModel) -> None:
        """Go on with the slices, classes and DeviceTaintRules of another model; nodes and VMs stay."""
        snapshot = snapshot_of(model, self._features)
        catalog = card_catalog(snapshot, self._features)
        self.typical = TypicalVms(self._vms, self.nodes, snapshot, catalog, self._features)
        self.placer.replace_slices(snapshot, catalog, self._chosen())
        self.meter = CardMeter(self.placer, self.typical)

    def _chosen(self) -> Policy:
        policy = policy_named(
            self._policy, lambda: self.typical.workload, self._draw, whole_per_cent=self._whole_per_cent
        )
        return NodesOnly(policy) if self._nodes_only else policy
