"""What ``make cluster KUBEVIRT=…`` has beside a control plane: nodes with GPUs, a driver, a kubelet, and a small KubeVirt or none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster.agents.driver import Driver
from tests.cluster.agents.hardware import pci_devices, pools_of_nodes
from tests.cluster.agents.kubelet import Kubelet
from tests.cluster.agents.kubevirt import FakeKubeVirt, kubevirt_installed
from tests.cluster.agents.worlds import UNLIMITED
from tests.cluster.control_plane import ControlPlane
from tests.cluster.play_network import PodNetwork
from tests.cluster.play_pods import PodProcesses
from virt_dra.api.known_drivers import metadata_writers
from virt_dra.api.kubevirt_versions import (
    GPUS_WITH_DRA,
    HOST_DEVICES,
    HOST_DEVICES_WITH_DRA,
    NETWORK_DEVICES_WITH_DRA,
    Gates,
    KubeVirtVersion,
)
from virt_dra.cluster.kube import connect

CONTROLLERS: Final = (
    "deployment-controller",
    "replicaset-controller",
    "endpointslice-controller",
    "disruption-controller",
)
"""With those of :mod:`tests.cluster.play`, what runs Deployments behind Services."""
_GATES: Final = (GPUS_WITH_DRA, HOST_DEVICES_WITH_DRA, HOST_DEVICES, NETWORK_DEVICES_WITH_DRA)
_REFRESH_SECONDS: Final = 0.5


@dataclass(frozen=True)
class Site:
    """``kubevirt``: its version; None where there is none. ``gpus``: of each node, by ``driver``."""

    kubevirt: KubeVirtVersion | None
    nodes: tuple[str, ...]
    gpus: int
    driver: str

    def __str__(self) -> str:
        count = f"{len(self.nodes)} node{'' if len(self.nodes) == 1 else 's'} with {self.gpus} GPU{'' if self.gpus == 1 else 's'} each"
        kubevirt = "no KubeVirt" if self.kubevirt is None else f"a small KubeVirt {self.kubevirt}"
        return f"{count} (driver {self.driver}), {kubevirt}"


@dataclass(frozen=True)
class Standing:
    """What stands. :meth:`run` it."""

    kubelet: Kubelet
    kubevirt: FakeKubeVirt | None
    pods: PodProcesses
    folder: Path

    async def run(self) -> None:
        """For ever. Raises an exception group where one of the agents fails."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.kubelet.run())
            group.create_task(self._show_domains())
            if self.kubevirt is not None:
                group.create_task(self.kubevirt.run())

    def domains(self) -> Mapping[tuple[str, str], str]:
        """Namespace and name of a VMI -> the domain that was started for it."""
        if self.kubevirt is None:
            return self.pods.domains()
        return {key: conversion.domain_xml for key, conversion in self.kubevirt.domains.items()}

    async def _show_domains(self) -> None:
        """Each in a file ``NAMESPACE_NAME.xml``, as long as its VMI runs."""
        shown: dict[str, str] = {}
        while True:
            wanted = {f"{namespace}_{name}.xml": text for (namespace, name), text in self.domains().items()}
            for name, text in wanted.items():
                if shown.get(name) != text:
                    (self.folder / name).write_text(text, encoding="utf-8")
            for name in shown.keys() - wanted.keys():
                (self.folder / name).unlink(missing_ok=True)
            shown = wanted
            await asyncio.sleep(_REFRESH_SECONDS)


@asynccontextmanager
async def standing(plane: ControlPlane, site: Site, network: PodNetwork, folder: Path, scratch: Path) -> AsyncIterator[Standing]:
    """``folder`` gets ``domains`` and ``logs`` of our pods, both emptied first; ``scratch``: for what nobody looks at."""
    domains, logs = folder / "domains", folder / "logs"
    for each in (domains, logs):
        each.mkdir(parents=True, exist_ok=True)
        for left in (*each.glob("*.xml"), *each.glob("*.log")):
            left.unlink()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(network.served())
        cluster = await stack.enter_async_context(connect(str(plane.kubeconfig), limits=UNLIMITED))
        pools = pools_of_nodes(site.driver, site.nodes, pci_devices(site.gpus))
        driver = Driver(cluster, pools, metadata=site.driver in metadata_writers())
        pods = stack.enter_context(closing(PodProcesses(plane, network, logs, scratch)))
        images = pods.images if site.kubevirt is None else {"virt-dra": pods.images["virt-dra"]}
        kubelet = Kubelet(cluster, site.nodes, (driver,), scratch / "kubelet", images=images, address_of=network.address_of)
        await kubelet.register()
        await driver.publish()
        kubevirt = None
        if site.kubevirt is not None:
            gates = Gates.of(site.kubevirt, dict.fromkeys(_GATES, True))
            own = await stack.enter_async_context(kubevirt_installed(plane, gates, stays=True))
            kubevirt = FakeKubeVirt(own, kubelet, gates)
        yield Standing(kubelet, kubevirt, pods, domains)
