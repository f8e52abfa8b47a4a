"""All admission plugins of an API server with default plugins, in its order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from virt_dra.api.core_v1 import Pod
from virt_dra.api.feature_gates import PLAIN, FeatureGates
from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.api.policies.pod_defaults import new_pod_status
from virt_dra.cluster.memory.plugins.declared_features import check_node_features
from virt_dra.cluster.memory.plugins.node_pods import (
    with_default_tolerations,
    with_not_ready_taint,
    with_topology_labels,
)
from virt_dra.cluster.memory.plugins.priority import check_default_class, with_priority
from virt_dra.cluster.memory.plugins.quota import charge
from virt_dra.cluster.memory.plugins.write_request import WriteRequest

Mutation = Callable[[WriteRequest], TypedObject]
Validation = Callable[[WriteRequest], tuple[TypedObject, ...]]

MUTATING: tuple[Mutation, ...] = (with_not_ready_taint, with_priority, with_default_tolerations, with_topology_labels)
VALIDATING: tuple[Validation, ...] = (check_default_class, check_node_features, charge)


@dataclass(frozen=True)
class AdmissionPlugins:
    """The plugins of a cluster; none by default. ``gates``: those that plugins depend on."""

    mutating: tuple[Mutation, ...] = ()
    validating: tuple[Validation, ...] = ()
    gates: FeatureGates = PLAIN
    pod_status: bool = False
    """Whether a new pod begins with the status that a real API server gives it; otherwise with the phase only."""

    def initial(self, obj: ObjectT) -> ObjectT:
        """A new object with the status that it begins with."""
        if self.pod_status and isinstance(obj, Pod):
            return cast("ObjectT", obj.with_(status=new_pod_status(obj)))
        return obj

    def mutated(self, request: WriteRequest) -> TypedObject:
        """The object that shall be stored. Raises :class:`~virt_dra.cluster.port.ApiError`."""
        for mutate in self.mutating:
            request = request.with_object(mutate(request))
        return request.new

    def checked(self, request: WriteRequest) -> tuple[TypedObject, ...]:
        """The objects to store with the object. Raises :class:`~virt_dra.cluster.port.ApiError` if it is refused."""
        return tuple(obj for check in self.validating for obj in check(request))


NO_PLUGINS = AdmissionPlugins()


def default_plugins(gates: FeatureGates) -> AdmissionPlugins:
    """The plugins of a kube-apiserver without ``--enable-admission-plugins``, less ServiceAccount."""
    return AdmissionPlugins(MUTATING, VALIDATING, gates, pod_status=True)
