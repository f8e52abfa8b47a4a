"""How far a reason is from a place: of several refusals the nearest is the one to mend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from virt_dra.allocator.explain import ELSEWHERE, NO_DEVICES, TOO_FEW, TOO_MANY
from virt_dra.allocator.features import REASONS, SELECTION_REASONS
from virt_dra.allocator.features.compatibility_groups import INCOMPATIBLE
from virt_dra.allocator.features.in_use import IN_USE, TAKEN
from virt_dra.allocator.features.taints import TAINTED
from virt_dra.allocator.pools import INCOMPLETE, INVALID
from virt_dra.scheduling.dynamic_resources.plugin import CLAIM_NOT_SHAREABLE
from virt_dra.scheduling.dynamic_resources.pod_devices import CLAIM_ELSEWHERE, NODE_ERROR
from virt_dra.scheduling.filters.host_ports import PORT_TAKEN
from virt_dra.scheduling.filters.node_affinity import AFFINITY
from virt_dra.scheduling.filters.node_resources import INSUFFICIENT
from virt_dra.scheduling.filters.pod_affinity import POD_AFFINITY
from virt_dra.scheduling.filters.taints import TAINTED as NODE_TAINTED
from virt_dra.scheduling.filters.topology_spread import SPREAD
from virt_dra.scheduling.filters.unschedulable import UNSCHEDULABLE
from virt_dra.scheduling.framework.refusals import Reason

_DISTANCE: Final[Mapping[str, int]] = {
    **dict.fromkeys(REASONS, 8),
    IN_USE: 1, TOO_FEW: 2, TAINTED: 3, UNSCHEDULABLE: 3, INSUFFICIENT: 3, PORT_TAKEN: 3,
    CLAIM_NOT_SHAREABLE: 3, NODE_TAINTED: 4, SPREAD: 4, POD_AFFINITY: 4, INCOMPATIBLE: 6,
    TAKEN: 9, INCOMPLETE: 9, INVALID: 9, TOO_MANY: 10, NODE_ERROR: 10, ELSEWHERE: 12, CLAIM_ELSEWHERE: 12, AFFINITY: 15,
    **dict.fromkeys(SELECTION_REASONS, 30), NO_DEVICES: 40,
}  # fmt: skip
"""What a user can free or tolerate is near; what isn't there at all, or goes to the pod itself, is far."""
NODE_REASONS: Final = frozenset(_DISTANCE)
"""Every reason of a node; each has a page in docs/reasons."""


def distance_of(reason: Reason) -> int:
    """How far a reason is from a place; a filter's that isn't listed is as far as most of devices."""
    return _DISTANCE.get(reason.code, 8)
