"""The filters in the order in which nodes are asked, by all who place pods. A new filter is one file in
:mod:`virt_dra.scheduling.filters` and one row here (CONTRIBUTING has a worked example)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from virt_dra.scheduling.filters.host_ports import NodePorts
from virt_dra.scheduling.filters.node_affinity import NodeAffinityFilter
from virt_dra.scheduling.filters.node_resources import BalancedAllocation, NodeResourcesFit, NodeUsages
from virt_dra.scheduling.filters.pod_affinity import InterPodAffinity, NamespaceLabels
from virt_dra.scheduling.filters.taints import TaintToleration
from virt_dra.scheduling.filters.topology_spread import PodTopologySpread
from virt_dra.scheduling.filters.unschedulable import NodeUnschedulable
from virt_dra.scheduling.filters.volume_binding import NOTHING_KNOWN, KnownVolumes, VolumeBinding
from virt_dra.scheduling.framework.node_table import NodeTable
from virt_dra.scheduling.framework.plugin import SchedulingPlugin


@dataclass(frozen=True)
class FilterSources:
    """What the filters read of a cluster, and the filter for devices. ``served_by_dra(name)``: whether a device class
    serves it. ``listed``: the resources that some node lists, if others, and nodes without any, aren't checked; else
    None. ``knows_all_pods``: False where others than those of the table may run."""

    table: NodeTable
    devices: SchedulingPlugin
    labels_of: NamespaceLabels
    usages: NodeUsages = field(default_factory=NodeUsages)
    served_by_dra: Callable[[str], bool] = lambda resource: False
    listed: frozenset[str] | None = None
    knows_all_pods: bool = True
    volumes: KnownVolumes = NOTHING_KNOWN


FILTERS: Final[tuple[Callable[[FilterSources], SchedulingPlugin], ...]] = (
    lambda sources: NodeUnschedulable(),
    lambda sources: TaintToleration(),
    lambda sources: NodeAffinityFilter(),
    lambda sources: NodePorts(),
    lambda sources: NodeResourcesFit(sources.usages, sources.served_by_dra, sources.listed),
    lambda sources: VolumeBinding(sources.volumes),
    lambda sources: PodTopologySpread(sources.table),
    lambda sources: InterPodAffinity(sources.table, sources.labels_of, knows_all_pods=sources.knows_all_pods),
    lambda sources: sources.devices,
)


def filters_over(sources: FilterSources) -> tuple[SchedulingPlugin, ...]:
    """The filters of the table over a cluster."""
    return tuple(make(sources) for make in FILTERS)


def scoring_filters_over(sources: FilterSources) -> tuple[SchedulingPlugin, ...]:
    """The filters, and the plugins that only score nodes, for who chooses as kube-scheduler does."""
    return (*filters_over(sources), BalancedAllocation(sources.usages))
