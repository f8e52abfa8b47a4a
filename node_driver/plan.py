"""What would be published of a node, and why the rest wouldn't, as a document
(docs/schemas/node-driver-plan.schema.json). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from node_driver.devices import PublishedSet
from node_driver.slices import PoolOwner, plan_slices, slice_contents
from virt_dra.api.wire import Json


def plan_document(published: PublishedSet, virtual_functions: Mapping[str, int], owner: PoolOwner) -> Json:
    """``virtual_functions``: PF -> how many VFs it would get."""
    slices = plan_slices(slice_contents(published, {}), (), owner).creates
    return {
        "driver": owner.driver,
        "node": owner.node,
        "resourceSlices": [slices[index].to_wire() for index in sorted(slices)],
        "devices": [
            {
                "name": device.name,
                "kind": device.kind.value,
                "address": device.address,
                "members": list(device.members),
                "driver": device.target_driver,
                "sanitize": device.sanitizing.value,
                **({"type": device.type_id} if device.type_id else {}),
            }
            for device in published.devices
        ],
        "excluded": [
            {"subject": excluded.subject, "reason": str(excluded.reason), "message": excluded.message}
            for excluded in published.excluded
        ],
        "virtualFunctions": dict(virtual_functions),
    }
