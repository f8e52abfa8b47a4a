"""Where the node driver's hardware and policies come from: this node's files, a file of policies or the cluster."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from node_driver.devices import PublishedSet
from node_driver.hardware.inventory import Hardware, VfCount
from node_driver.hardware.links import read_links
from node_driver.hardware.reading import HardwareRoots, read_again, read_hardware
from node_driver.hardware.uevents import KernelReports
from node_driver.policy.deciding import published_set, wanted_vfs
from virt_dra.api.core_v1 import Node
from virt_dra.api.policies.node_policy_v1alpha1 import VirtDraNodePolicy
from virt_dra.cluster.port import ApiError, Cluster
from virt_dra.cluster.watching.informer import Informer

log = logging.getLogger(__name__)

LABELS_PAUSE: Final = 60.0
"""Seconds between two looks at the node's labels, which policies select."""
_RETRY: Final = 1.0


class NodeHardware:
    """:class:`node_driver.daemon.HardwareSource` of this node. ``root``: before /sys, /proc and /lib/modules."""

    def __init__(self, root: str = "") -> None:
        modules = f"{root}/lib/modules/{os.uname().release}"
        self._roots = HardwareRoots(f"{root}/sys", f"{root}/proc", modules if Path(modules).is_dir() else "")
        self._reports: KernelReports | None = None

    async def read(self) -> Hardware:
        return await asyncio.to_thread(read_hardware, self._roots)

    async def read_again(self, earlier: Hardware, touched: frozenset[str]) -> Hardware:
        return await asyncio.to_thread(read_again, self._roots, earlier, touched)

    async def links(self) -> Mapping[str, bool]:
        return await asyncio.to_thread(read_links, self._roots.sysfs)

    async def changed(self) -> frozenset[str] | None:
        """Reports begin with the first call: what changed before is seen by the look at the start."""
        if self._reports is None:
            self._reports = KernelReports()
        return await self._reports.changed()


def policies_of(file: Path | None, cluster: Cluster, node: str) -> FilePolicies | ClusterPolicies:
    """The policies of a file if there is one, else the cluster's. Raises ValueError for a file that can't be read."""
    return ClusterPolicies(cluster, node) if file is None else FilePolicies(policies_in(file))


class LastDecision:
    """What policies publish of a node's hardware, decided anew only when one of them has changed: for 1,000 functions
    it takes 80 ms, in which no claim is worked on, and claims change neither."""

    def __init__(self) -> None:
        self._given: tuple[Hardware, Sequence[VirtDraNodePolicy], Mapping[str, str]] | None = None
        self._published = PublishedSet()

    def published(
        self, hardware: Hardware, policies: Sequence[VirtDraNodePolicy], labels: Mapping[str, str]
    ) -> PublishedSet:
        given = hardware, policies, labels
        if given != self._given:
            self._published = published_set(hardware, policies, labels)
            self._given = given
        return self._published


class FilePolicies:
    """:class:`node_driver.daemon.PolicySource` of policies that don't change while the driver runs. They are for this
    node; those with a nodeSelector aren't."""

    def __init__(self, policies: Sequence[VirtDraNodePolicy]) -> None:
        self._policies = tuple(policies)
        self._decision = LastDecision()

    def published(self, hardware: Hardware) -> PublishedSet | None:
        return self._decision.published(hardware, self._policies, {})

    def wanted_vfs(self, hardware: Hardware) -> Mapping[str, VfCount] | None:
        return wanted_vfs(hardware, self._policies)

    async def changed(self) -> None:
        await asyncio.Event().wait()

    async def run(self) -> None:
        """Nothing has to be followed."""


class ClusterPolicies:
    """:class:`node_driver.daemon.PolicySource` of the cluster's policies, and the labels of the node that they select,
    up to date while :meth:`run` runs. Before both are known nothing is said: a driver that starts must not withdraw
    what is published."""

    def __init__(self, cluster: Cluster, node: str, labels_pause: float = LABELS_PAUSE) -> None:
        self._cluster, self._node, self._labels_pause = cluster, node, labels_pause
        self._informer = Informer(cluster, VirtDraNodePolicy, optional=True)
        self._labels: Mapping[str, str] | None = None
        self._event = asyncio.Event()
        self._decision = LastDecision()

    def published(self, hardware: Hardware) -> PublishedSet | None:
        if self._labels is None or not self._informer.has_synced:
            return None
        return self._decision.published(hardware, self._informer.store.values(), self._labels)

    def wanted_vfs(self, hardware: Hardware) -> Mapping[str, VfCount] | None:
        if self._labels is None or not self._informer.has_synced:
            return None
        return wanted_vfs(hardware, self._informer.store.values(), self._labels)

    async def changed(self) -> None:
        await self._event.wait()
        self._event.clear()

    async def run(self) -> None:
        """Follows both. Ends only by cancellation."""
        self._informer.on_change(lambda old, new: self._event.set())
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run(), name="informer VirtDraNodePolicy")
            group.create_task(self._report_synced(), name="policies are known")
            await self._follow_labels()

    async def _report_synced(self) -> None:
        await self._informer.synced()
        self._event.set()

    async def _follow_labels(self) -> None:
        while True:
            try:
                labels = (await self._cluster.get(Node, self._node)).metadata.labels
            except ApiError as error:
                log.warning("node %s can't be read: %s", self._node, error)
                await asyncio.sleep(_RETRY if self._labels is None else self._labels_pause)
                continue
            if labels != self._labels:
                self._labels = labels
                self._event.set()
            await asyncio.sleep(self._labels_pause)


def policies_in(file: Path) -> tuple[VirtDraNodePolicy, ...]:
    """The policies in a file of YAML or JSON. Raises ValueError, which names the file and every fault."""
    # Only here: YAML and the validation take memory that a driver of a cluster doesn't need.
    from node_driver.policy.documents import read_policies

    try:
        return read_policies(file.read_bytes(), str(file))
    except OSError as error:
        raise ValueError(str(error)) from error
