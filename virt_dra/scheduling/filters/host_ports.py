"""NodePorts: a port of the host is for one pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from virt_dra.api.core_v1 import ContainerPort, Pod
from virt_dra.scheduling.framework.events import ClusterEvent, Hint
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.plugin import FilterScope, PluginAttempt, SchedulingPlugin
from virt_dra.scheduling.framework.refusals import FilterRefusal, Reason

PORT_TAKEN: Final = "HostPortTaken"
"""A pod on the node has a host port that this one asks for."""

_EVERYWHERE = "0.0.0.0"
_WORDS = "node(s) didn't have free ports for the requested pod ports"
_REFUSAL: Final = FilterRefusal("NodePorts", (_WORDS,), resolvable=True, code=PORT_TAKEN)


class HostPort(NamedTuple):
    """A port of the host that a pod asks for."""

    address: str
    protocol: str
    port: int

    def __str__(self) -> str:
        own = "" if self.address == _EVERYWHERE else f"{self.address}:"
        return f"{own}{self.port}/{self.protocol}"


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
        return _REFUSAL if self._taken(state) else None

    def reasons(self, state: NodeState) -> Iterator[Reason]:
        taken = self._taken(state)
        if taken:
            ports = f"host port {taken[0]} is" if len(taken) == 1 else f"host ports {', '.join(map(str, taken))} are"
            yield Reason(PORT_TAKEN, f"{ports} taken")

    def _taken(self, state: NodeState) -> list[HostPort]:
        return _taken_of(self._wanted, (port for pod in state.pods.values() for port in host_ports(pod)))


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The host ports of a pod's containers, and of the sidecars among its init containers."""
    containers = (
        *pod.spec.containers,
        *(container for container in pod.spec.init_containers if container.restart_policy == "Always"),
    )
    return tuple([_of(port) for container in containers for port in container.ports if port.host_port])


def _of(port: ContainerPort) -> HostPort:
    return HostPort(port.host_ip or _EVERYWHERE, port.protocol or "TCP", port.host_port)


def _taken_of(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> list[HostPort]:
    """The wanted ports that are in use: an address that stands for all clashes with any."""
    addresses: dict[tuple[str, int], set[str]] = {}
    for other in used:
        addresses.setdefault((other.protocol, other.port), set()).add(other.address)
    taken: list[HostPort] = []
    for port in wanted:
        users = addresses.get((port.protocol, port.port), set())
        if users and (port.address == _EVERYWHERE or _EVERYWHERE in users or port.address in users):
            taken.append(port)
    return taken


def _frees(pod: Pod, old: Pod, new: object) -> bool:
    """Whether the deleted pod had a port that the waiting one wants."""
    return bool(_taken_of(host_ports(pod), host_ports(old)))
