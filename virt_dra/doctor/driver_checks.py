"""Doctor's checks of the node driver: whether it runs on the nodes, publishes anything, and keeps its mdevs. Pure:
facts in, findings out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from virt_dra.api.counting import counted
from virt_dra.api.integration.check_findings import CheckFinding, CheckSubject
from virt_dra.api.integration.known_drivers import PASSTHROUGH_DRIVER
from virt_dra.api.integration.mdev_sweep import MadeMdevType, made_mdev_types, sweep_finding
from virt_dra.api.kubevirt_v1 import KubeVirt
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.doctor.cluster_checks import readable
from virt_dra.doctor.facts import ClusterFacts, Unknown, items, unread

GUIDE: Final = "docs/guides/driver.md"


def node_driver(facts: ClusterFacts, named: KubeVirtVersion | None = None) -> Iterator[CheckFinding]:
    """Findings on the node driver; none where it isn't installed. ``named``: overrides KubeVirt's version."""
    own = (raw for raw in items(facts.slices) if (raw.get("spec") or {}).get("driver") == PASSTHROUGH_DRIVER)
    published = tuple(readable(ResourceSlice, own))
    yield from _running(facts, published)
    if isinstance(facts.nodes, Unknown):
        yield unread(CheckSubject("mdev-sweep", "Nodes"), facts.nodes)
    nodes = {raw["metadata"]["name"]: raw["metadata"].get("labels") or {} for raw in items(facts.nodes)}
    yield from _sweep(facts, named, made_mdev_types(published, nodes))


def _running(facts: ClusterFacts, published: tuple[ResourceSlice, ...]) -> Iterator[CheckFinding]:
    if isinstance(facts.drivers, Unknown):
        yield unread(CheckSubject("node-driver", "node driver"), facts.drivers)
        return
    for daemon_set in facts.drivers:
        metadata, status = daemon_set["metadata"], daemon_set.get("status") or {}
        subject = CheckSubject("node-driver", f"DaemonSet {metadata['namespace']}/{metadata['name']}")
        wanted, ready = int(status.get("desiredNumberScheduled", 0)), int(status.get("numberReady", 0))
        logs = f"kubectl logs -n {metadata['namespace']} daemonset/{metadata['name']}"
        devices = sum(len(obj.spec.devices) for obj in published)
        if not wanted:
            allowed = "which nodes its nodeSelector and tolerations allow"
            described = f"kubectl describe daemonset -n {metadata['namespace']} {metadata['name']}"
            advice = f"{described}: {allowed}; without a controller of DaemonSets it has none"
            yield subject.warning("it runs on no node", advice)
        elif ready < wanted:
            advice = f"{logs}; devices of the nodes without it can't be prepared"
            yield subject.warning(f"{ready} of {counted(wanted, 'pod')} ready", advice)
        elif not published:
            message = f"it runs on {counted(wanted, 'node')}, and has published nothing"
            yield subject.warning(message, logs)
        elif not devices:
            message = f"it runs on {counted(wanted, 'node')}, and no policy names a device that they have"
            advice = f"virt-dra node-driver --plan says of each device why it isn't published; see {GUIDE}"
            yield subject.warning(message, advice)
        else:
            nodes = len({obj.spec.node_name for obj in published if obj.spec.devices})
            yield subject.ok(f"{counted(devices, 'device')} on {counted(nodes, 'node')}")


def _sweep(facts: ClusterFacts, named: KubeVirtVersion | None, types: list[MadeMdevType]) -> Iterator[CheckFinding]:
    for kubevirt in readable(KubeVirt, items(facts.kubevirts)):
        if finding := sweep_finding(kubevirt, named, types):
            yield finding
