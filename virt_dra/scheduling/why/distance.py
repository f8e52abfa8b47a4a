"""How far a reason is from a placement: of several refusals the nearest is the one to mend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from virt_dra.allocator.explain import DISTANCES, ORDINARY_DISTANCE
from virt_dra.scheduling.dynamic_resources.plugin import CLAIM_NOT_SHAREABLE
from virt_dra.scheduling.dynamic_resources.pod_devices import CLAIM_ELSEWHERE, NODE_ERROR
from virt_dra.scheduling.filters.host_ports import PORT_TAKEN
from virt_dra.scheduling.filters.node_affinity import AFFINITY
from virt_dra.scheduling.filters.node_resources import INSUFFICIENT
from virt_dra.scheduling.filters.pod_affinity import POD_AFFINITY
from virt_dra.scheduling.filters.taints import TAINTED as NODE_TAINTED
from virt_dra.scheduling.filters.topology_spread import SPREAD
from virt_dra.scheduling.filters.unschedulable import UNSCHEDULABLE
from virt_dra.scheduling.filters.volume_binding import CLAIM_NOT_BOUND, NOT_AVAILABLE
from virt_dra.scheduling.filters.volume_binding import ELSEWHERE as VOLUME_ELSEWHERE
from virt_dra.scheduling.framework.refusals import Reason

_DISTANCES: Final[Mapping[str, int]] = {
    **DISTANCES,
    CLAIM_NOT_BOUND: 5, NOT_AVAILABLE: 6, VOLUME_ELSEWHERE: 12,
    UNSCHEDULABLE: 3, INSUFFICIENT: 3, PORT_TAKEN: 3, CLAIM_NOT_SHAREABLE: 3, NODE_TAINTED: 4, SPREAD: 4,
    POD_AFFINITY: 4, NODE_ERROR: 10, CLAIM_ELSEWHERE: 12, AFFINITY: 15,
}  # fmt: skip
"""Those of devices, and of filters that ask the node itself."""
NODE_REASONS: Final = frozenset(_DISTANCES)
"""Every reason of a node; each has a page in docs/reasons."""


def distance_of(reason: Reason) -> int:
    """How far a reason is from a placement."""
    return _DISTANCES.get(reason.code, ORDINARY_DISTANCE)
