"""NodePorts: a port of the host is for one pod."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from virt_dra.api.core_v1 import ContainerPort, Pod
from virt_dra.scheduling.framework.events import ClusterEvent, Hint
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.plugin import FilterScope, PluginAttempt, SchedulingPlugin
from virt_dra.scheduling.framework.refusals import FilterRefusal

PORT_TAKEN: Final = "HostPortTaken"
"""A pod on the node has a host port that this one asks for."""

_EVERYWHERE = "0.0.0.0"

HostPort = tuple[str, str, int]
"""Address, protocol, port."""


class NodePorts(SchedulingPlugin):
    """Refuses nodes on which a pod has one of the host ports already."""

    name = "NodePorts"
    scope = FilterScope.RELATIONS

    @property
    def hints(self) -> tuple[Hint, ...]:
        return (Hint(frozenset({ClusterEvent.NODE_ADD})), Hint(frozenset({ClusterEvent.ASSIGNED_POD_DELETE}), _frees))

    def attempt(self, pod: Pod) -> PluginAttempt | None:
        wanted = host_ports(pod)
        return _PortsAttempt(wanted) if wanted else None


class _PortsAttempt(PluginAttempt):
    def __init__(self, wanted: tuple[HostPort, ...]) -> None:
        self._wanted = wanted

    def filter(self, state: NodeState) -> FilterRefusal | None:
        used = [port for pod in state.pods.values() for port in host_ports(pod)]
        if not _clash(self._wanted, used):
            return None
        return FilterRefusal(
            NodePorts.name,
            ("node(s) didn't have free ports for the requested pod ports",),
            resolvable=True,
            code=PORT_TAKEN,
        )


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The host ports of a pod's containers, and of the sidecars among its init containers."""
    containers = (
        *pod.spec.containers,
        *(container for container in pod.spec.init_containers if container.restart_policy == "Always"),
    )
    return tuple([_of(port) for container in containers for port in container.ports if port.host_port])


def _of(port: ContainerPort) -> HostPort:
    return port.host_ip or _EVERYWHERE, port.protocol or "TCP", port.host_port


def _clash(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """An address that stands for all clashes with any."""
    used_ports = set(used)
    addresses: dict[tuple[str, int], set[str]] = {}
    for address, protocol, port in used_ports:
        addresses.setdefault((protocol, port), set()).add(address)
    for address, protocol, port in wanted:
        taken = addresses.get((protocol, port), set())
        if taken and (address == _EVERYWHERE or _EVERYWHERE in taken or address in taken):
            return True
    return False


def _frees(pod: Pod, old: Pod, new: object) -> bool:
    """Whether the deleted pod had a port that the waiting one wants."""
    return _clash(host_ports(pod), host_ports(old))
