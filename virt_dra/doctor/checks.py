"""The checks of ``virt-dra doctor`` in their order: facts in, findings out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from virt_dra.api.integration.check_findings import CheckFinding
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.doctor import cluster_checks as cluster
from virt_dra.doctor import install_checks as install
from virt_dra.doctor.caller_checks import callers
from virt_dra.doctor.driver_checks import node_driver
from virt_dra.doctor.extender_checks import extender
from virt_dra.doctor.facts import ClusterFacts
from virt_dra.doctor.keeper_checks import keeper

DoctorCheck = Callable[[ClusterFacts], Iterator[CheckFinding]]

_AFTER: Final[tuple[DoctorCheck, ...]] = (
    install.crds,
    install.workloads,
    install.webhook,
    callers,
    install.certificate,
    install.permissions,
    install.limits,
    install.leader,
    extender,
    keeper,
)


def examine(facts: ClusterFacts, own_version: str, kubevirt: KubeVirtVersion | None = None) -> tuple[CheckFinding, ...]:
    """All findings. ``own_version``: of this program. ``kubevirt``: overrides the cluster's version."""
    checks: tuple[DoctorCheck, ...] = (
        cluster.kubernetes,
        cluster.features,
        partial(cluster.kubevirt, named=kubevirt),
        cluster.drivers,
        cluster.classes,
        partial(node_driver, named=kubevirt),
        partial(install.installed, own_version=own_version),
        *_AFTER,
    )
    return tuple(finding for check in checks for finding in check(facts))
