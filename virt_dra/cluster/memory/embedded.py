"""The embedded cluster with the system's clock and randomness. The edge; all else takes them as arguments."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from random import Random, SystemRandom
from uuid import UUID

from virt_dra.api.feature_gates import PLAIN, FeatureGates
from virt_dra.cel.validation import compiled_rules
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.names import random_suffixes
from virt_dra.cluster.memory.plugins.chain import default_plugins
from virt_dra.cluster.memory.rules import KindRules


def strict_cluster(
    clock: Callable[[], datetime],
    names: Callable[[], str],
    uids: Callable[[], str],
    gates: FeatureGates = PLAIN,
    *,
    node_rules: bool = False,
) -> MemoryCluster:
    """An empty cluster that is as strict as a kube-apiserver with these gates, its default admission plugins (without
    ServiceAccount) and RBAC: namespaces must exist, pods stay until their kubelets confirm, quotas are charged.
    ``node_rules``: the authorizer Node and the plugin NodeRestriction, too, as most clusters have them (C-13.8)."""
    return MemoryCluster(
        clock, names, uids, admission=KindRules(compiled_rules(gates), strict=True), namespaces_must_exist=True,
        graceful_deletion=True, granular_status=gates.granular_status_authorization, plugins=default_plugins(gates),
        node_rules=node_rules,
    )  # fmt: skip


def embedded_cluster(random: Random | None = None) -> MemoryCluster:
    """An empty cluster. ``random``: what names and UIDs are made of; without it they are new ones each time."""
    chance = random or SystemRandom()
    return MemoryCluster(
        lambda: datetime.now(UTC), random_suffixes(chance), lambda: str(UUID(int=chance.getrandbits(128), version=4))
    )
