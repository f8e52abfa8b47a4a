"""Connects the parts of the node driver: this node's files, the kubelet's sockets and the cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from node_driver.claims.carrying_out import ClaimSteps
from node_driver.claims.placement import FilePlacement
from node_driver.claims.repairing import ClaimRepair
from node_driver.claims.service import NodeClaims
from node_driver.conditions import ConditionReason, TaintEffect
from node_driver.daemon import DaemonSettings, DeviceSurvey, drive
from node_driver.host.child import AttributeHelper
from node_driver.host.file_locks import FileLocks
from node_driver.host.node_files import NodeFiles
from node_driver.host.node_host import NodeHost
from node_driver.host.node_programs import NodePrograms
from node_driver.metrics import DriverMetrics, MeasuredClaims
from node_driver.plain_port import serve_plain
from node_driver.publishing import Publisher
from node_driver.state.checkpoint import Checkpoint
from node_driver.state.disk_files import DiskFiles
from node_driver.vf_making import VfMaker
from node_driver.wire.server import KubeletServer
from virt_dra.cli.node_driver.sources import NodeHardware, policies_of
from virt_dra.cli.shared.stopping import stop_signal
from virt_dra.cluster.kube.cluster import KubeCluster
from virt_dra.cluster.kube.config import found_access
from virt_dra.cluster.kube.connections import ServerConnections
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.cluster.kube.transport import Transport

log = logging.getLogger(__name__)

LIMITS: Final = ClientLimits(qps=50.0, burst=100, timeout=10.0, patience=10.0)
"""Of requests to the API server: a kubelet's call must be answered in time (D-11). As many as a kubelet may by default:
each claim is read once, and 64 that are prepared at once mustn't wait for their turn."""


@dataclass(frozen=True)
class DriverPlaces:
    """Absolute paths. ``host_root``: before the host's /sys, /proc and /dev."""

    plugin_folder: str
    registry: str
    cdi_folder: str
    host_root: str = ""


@dataclass(frozen=True)
class NodeDriver:
    """What the command was given. ``policy``: a file; None for the cluster's policies."""

    name: str
    node: str
    pod_uid: str
    places: DriverPlaces
    effects: Mapping[ConditionReason, TaintEffect]
    policy: Path | None
    plain_host: str
    plain_port: int
    kubeconfig: str | None
    context: str | None


async def run_driver(driver: NodeDriver) -> None:
    """Runs until SIGTERM or SIGINT. Starts without an API server, too: what is prepared must be released all the same.
    Raises ConnectionProblem where no cluster is configured, SocketsInUse, ValueError and OSError."""
    access = await found_access(driver.kubeconfig, driver.context)
    transport = Transport(ServerConnections(access), LIMITS)
    helper = AttributeHelper()
    try:
        await _run(driver, KubeCluster(transport), helper, stop_signal())
    except ExceptionGroup as errors:  # of parts that run beside each other: the first one has ended the others
        error: Exception = errors
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise error from errors
    finally:
        helper.close()
        await transport.close()


async def _run(driver: NodeDriver, cluster: KubeCluster, helper: AttributeHelper, stop: asyncio.Event) -> None:
    places, metrics = driver.places, DriverMetrics()
    locks = FileLocks(f"{places.plugin_folder}/locks")
    files = NodeFiles(locks, helper, root=places.host_root)
    host = NodeHost(files, NodePrograms(locks), metrics.hung)
    disk = DiskFiles()
    boot_id = Path(f"{places.host_root}/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    checkpoint = Checkpoint(places.plugin_folder, disk, locks, boot_id, metrics.checkpoint_written)
    publisher = Publisher(cluster, driver.name, driver.node, observer=metrics)
    policies = policies_of(driver.policy, cluster, driver.node)
    survey = DeviceSurvey(
        DaemonSettings(driver.name, driver.node, driver.effects), NodeHardware(places.host_root), policies, host,
        VfMaker(host, checkpoint, locks), checkpoint, publisher, metrics,
    )  # fmt: skip
    placement = FilePlacement(driver.name, driver.node, places.plugin_folder, places.cdi_folder)
    work = ClaimSteps(host, disk, placement)
    claims = NodeClaims(cluster, survey, work, checkpoint, locks)
    repair = ClaimRepair(claims, work, checkpoint, locks, cluster)
    server = KubeletServer(
        driver.name, MeasuredClaims(claims, metrics, survey.wake), survey, plugin_folder=places.plugin_folder,
        registry=places.registry, pod_uid=driver.pod_uid,
    )  # fmt: skip
    async with asyncio.TaskGroup() as group:
        plain = partial(serve_plain, driver.plain_host, driver.plain_port, metrics.all, lambda: survey.ready)
        beside = [group.create_task(plain(), name="plain port"), group.create_task(policies.run(), name="policies")]
        await drive(survey, repair, publisher, server, locks, stop)
        for task in beside:
            task.cancel()
