"""What ``make cluster KUBEVIRT=…`` has beside a control plane: nodes with GPUs, a driver, a kubelet, and a small
KubeVirt or none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from devtools.agents.kubevirt import FakeKubeVirt
from devtools.agents.kubevirt_installation import kubevirt_installed
from devtools.agents.worlds import UNLIMITED
from devtools.cluster.control_plane import ControlPlane
from devtools.play.logs import logs_served
from devtools.play.network import PodNetwork
from devtools.play.pods import PodProcesses, domain_file
from devtools.play.starting import Starter
from launcher import Conversion
from virt_dra.api.integration.known_drivers import metadata_writers
from virt_dra.api.kubevirt_versions import (
    GPUS_WITH_DRA,
    HOST_DEVICES,
    HOST_DEVICES_WITH_DRA,
    NETWORK_DEVICES_WITH_DRA,
    Gates,
    KubeVirtVersion,
)
from virt_dra.cluster.kube.cluster import connect
from virt_dra.cluster.watching.informer import CacheKey
from virt_dra.simulator.agents.driver import Driver
from virt_dra.simulator.agents.hardware import pci_devices, pools_of_nodes
from virt_dra.simulator.agents.kubelet import Kubelet

CONTROLLERS: Final = (
    "deployment-controller",
    "replicaset-controller",
    "endpointslice-controller",
    "disruption-controller",
)
"""With those of :mod:`devtools.play.command`, what runs Deployments behind Services."""
_GATES: Final = (GPUS_WITH_DRA, HOST_DEVICES_WITH_DRA, HOST_DEVICES, NETWORK_DEVICES_WITH_DRA)


@dataclass(frozen=True)
class Site:
    """``kubevirt``: its version; None where there is none. ``gpus``: of each node, by ``driver``."""

    kubevirt: KubeVirtVersion | None
    nodes: tuple[str, ...]
    gpus: int
    driver: str

    def __str__(self) -> str:
        count = (
            f"{len(self.nodes)} node{'' if len(self.nodes) == 1 else 's'} with "
            f"{self.gpus} GPU{'' if self.gpus == 1 else 's'} each"
        )
        kubevirt = "no KubeVirt" if self.kubevirt is None else f"a small KubeVirt {self.kubevirt}"
        return f"{count} (driver {self.driver}), {kubevirt}"


@dataclass(frozen=True)
class Standing:
    """What stands. :meth:`run` it."""

    kubelet: Kubelet
    kubevirt: FakeKubeVirt | None

    async def run(self) -> None:
        """For ever. Raises an exception group where one of the agents fails."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.kubelet.run())
            if self.kubevirt is not None:
                group.create_task(self.kubevirt.run())


@asynccontextmanager
async def standing(
    plane: ControlPlane, site: Site, network: PodNetwork, folder: Path, scratch: Path, starter: Starter | None = None
) -> AsyncIterator[Standing]:
    """``folder`` gets ``domains`` and ``logs`` of our pods, both emptied first; ``scratch``: for temporary files;
    ``starter``: of our pods' containers, which are processes if it is None."""
    domains, logs = folder / "domains", folder / "logs"
    for target in (domains, logs):
        target.mkdir(parents=True, exist_ok=True)
        for left in (*target.glob("*.xml"), *target.glob("*.log")):
            left.unlink()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(network.served())
        cluster = await stack.enter_async_context(connect(str(plane.kubeconfig), limits=UNLIMITED))
        pools = pools_of_nodes(site.driver, site.nodes, pci_devices(site.gpus))
        driver = Driver(cluster, pools, metadata=site.driver in metadata_writers())
        pods = stack.enter_context(closing(PodProcesses(plane, network, logs, domains, scratch, starter)))
        images = pods.images if site.kubevirt is None else {"virt-dra": pods.images["virt-dra"]}
        kubelet = Kubelet(
            cluster, site.nodes, (driver,), scratch / "kubelet", images=images, address_of=network.address_of
        )
        await kubelet.register()
        await stack.enter_async_context(logs_served(cluster, network, site.nodes, pods.log_of))
        await driver.publish()
        kubevirt = None
        if site.kubevirt is not None:
            gates = Gates.for_version(site.kubevirt, dict.fromkeys(_GATES, True))
            own = await stack.enter_async_context(kubevirt_installed(plane, gates, stays=True))
            kubevirt = FakeKubeVirt(own, kubelet, gates, reported=partial(_show, domains))
        yield Standing(kubelet, kubevirt)


def _show(folder: Path, key: CacheKey, domain: Conversion | None) -> None:
    path = domain_file(folder, *key)
    if domain is None:
        path.unlink(missing_ok=True)
    else:
        path.write_text(domain.domain_xml, encoding="utf-8")
