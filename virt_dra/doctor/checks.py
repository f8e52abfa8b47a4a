"""The checks of ``virt-dra doctor`` in their order: facts in, findings out. Pure."""

from __future__ import annotations

from itertools import chain

from virt_dra.api.integration.check_findings import CheckFinding
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.doctor import cluster_checks as cluster
from virt_dra.doctor import install_checks as install
from virt_dra.doctor.caller_checks import callers
from virt_dra.doctor.driver_checks import node_driver
from virt_dra.doctor.facts import ClusterFacts
from virt_dra.doctor.optional_checks import extender, keeper


def examine(facts: ClusterFacts, own_version: str, kubevirt: KubeVirtVersion | None = None) -> tuple[CheckFinding, ...]:
    """All findings. ``own_version``: of this program. ``kubevirt``: overrides the cluster's version."""
    findings = (
        cluster.kubernetes(facts),
        cluster.features(facts),
        cluster.kubevirt(facts, kubevirt),
        cluster.drivers(facts),
        cluster.classes(facts),
        node_driver(facts, kubevirt),
        install.installed(facts, own_version),
        install.crds(facts),
        install.workloads(facts),
        install.webhook(facts),
        callers(facts),
        install.certificate(facts),
        install.permissions(facts),
        install.limits(facts),
        install.leader(facts),
        extender(facts),
        keeper(facts),
    )
    return tuple(chain.from_iterable(findings))
