"""The allocator's answer for a claim or VM, device by device, to be laid over the topology."""

from __future__ import annotations

from collections.abc import Iterable

from virt_dra.allocator import FatalError
from virt_dra.allocator.model import DeviceId
from virt_dra.api.resource_v1 import DeviceRequestAllocationResult
from virt_dra.inventory.topology import CHOSEN, REFUSED, DeviceVerdict, TopologyOverlay
from virt_dra.model.cluster import ClusterModel
from virt_dra.scheduling.pod_requests import unknown_to
from virt_dra.simulator.explaining.state import ClusterState
from virt_dra.simulator.explaining.subject import find_subject


def overlay_of(word: str, name: str, model: ClusterModel) -> TopologyOverlay:
    """The devices that a claim or VM has, or would get on the first node that fits; or the nearest ones with refusals.
    Raises NoSubject, FatalError."""
    state = ClusterState.from_model(model)
    subject = find_subject(word, name, "default", state.model)
    verdicts = _chosen(result for claim in subject.claims for result in claim.results)
    if subject.wish is None:
        return TopologyOverlay(verdicts)
    asked = state.fit(subject.wish)
    if asked.everywhere is not None:
        raise FatalError(asked.everywhere.description)
    placed = False
    by_node = _devices_of_nodes(state)
    for node in state.judged(asked):
        if node.fits and not placed:
            placed = True
            allocations = state.allocations(subject.wish, node.node)
            verdicts |= _chosen(result for allocation in allocations for result in allocation.devices.results)
        reasons = [reason.text for reason in node.node_reasons]
        nearest = node.blocking.nearest if node.blocking is not None else ()
        if reasons and not nearest:
            verdicts |= dict.fromkeys(by_node.get(node.node, ()), DeviceVerdict(REFUSED, "; ".join(reasons)))
        for refused in nearest:
            verdicts[refused.device] = DeviceVerdict(REFUSED, "; ".join([*reasons, refused.reason.text]))
    return TopologyOverlay(verdicts, unknown_to([subject.wish.pod], state.model))


def _chosen(results: Iterable[DeviceRequestAllocationResult]) -> dict[DeviceId, DeviceVerdict]:
    return {DeviceId(result.driver, result.pool, result.device): DeviceVerdict(CHOSEN) for result in results}


def _devices_of_nodes(state: ClusterState) -> dict[str, list[DeviceId]]:
    """The devices of slices that name a node."""
    by_node: dict[str, list[DeviceId]] = {}
    for slice_ in state.snapshot.slices:
        spec = slice_.spec
        if spec.node_name:
            by_node.setdefault(spec.node_name, []).extend(
                DeviceId(spec.driver, spec.pool.name, device.name) for device in spec.devices
            )
    return by_node
