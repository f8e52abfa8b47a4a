"""The allocator's answer for a claim or VM, device by device, to be laid over the topology."""

from __future__ import annotations

from virt_dra.allocator.model import DeviceId
from virt_dra.inventory.topology import CHOSEN, REFUSED, DeviceVerdict, DeviceVerdicts
from virt_dra.model.cluster import ClusterModel
from virt_dra.simulator.explaining.state import ClusterState
from virt_dra.simulator.explaining.subject import find_subject


def overlay_of(word: str, name: str, model: ClusterModel) -> DeviceVerdicts:
    """The devices that it has, or would get on the first node that fits; else, of each node, those that are nearest,
    with their misses.

    Raises NoSubject for what isn't there, FatalError for claims that no node can serve.
    """
    state = ClusterState.from_model(model)
    subject = find_subject(word, name, "default", state.model)
    found: dict[DeviceId, DeviceVerdict] = {}
    for claim in subject.claims:
        if claim.status.allocation is not None:
            for result in claim.status.allocation.devices.results:
                found[DeviceId(result.driver, result.pool, result.device)] = DeviceVerdict(CHOSEN)
    if subject.wish is None:
        return found
    placed = False
    by_node = _devices_of_nodes(state)
    for node in state.judged(subject.wish):
        if node.fits and not placed:
            placed = True
            for allocation in state.allocations(subject.wish, node.node):
                for result in allocation.devices.results:
                    found[DeviceId(result.driver, result.pool, result.device)] = DeviceVerdict(CHOSEN)
        host = "; ".join(miss.text for miss in node.host)
        if host and not node.devices:
            found.update(dict.fromkeys(by_node.get(node.node, ()), DeviceVerdict(REFUSED, host)))
        for device, miss in node.devices:
            found[device] = DeviceVerdict(REFUSED, f"{host}; {miss.text}" if host else miss.text)
    return found


def _devices_of_nodes(state: ClusterState) -> dict[str, list[DeviceId]]:
    """The devices of slices that name a node."""
    found: dict[str, list[DeviceId]] = {}
    for each in state.snapshot.slices:
        spec = each.spec
        if spec.node_name:
            found.setdefault(spec.node_name, []).extend(
                DeviceId(spec.driver, spec.pool.name, device.name) for device in spec.devices
            )
    return found
