"""A host's topology as text, in YAML or JSON, for tests and for a host that isn't at hand.

numaNodes:
- {id: 0, cpus: 0-3,8-11}
- {id: 1, cpus: 4-7,12-15}
cores: ["0,8", "1,9"]        # the threads of each core that has several; may be left out
pciFunctions:
  "0000:41:00.0": {numaNode: 0, pcieRoot: "pci0000:40"}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from launcher.errors import AddressSyntaxError
from launcher.host_addresses.pci import PciAddress
from launcher.placement.cpu_lists import cpu_list, parse_cpu_list
from launcher.placement.host import HostTopology, PciLocation
from virt_dra.api.reading.document_error import DocumentError
from virt_dra.api.reading.documents import read_documents
from virt_dra.api.wire import EMPTY_MAP, Int, List, Map, Str, Wire, WireError

KIND: Final = "HostTopology"
_ROOT: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")


class _Node(Wire):
    id: Int
    cpus: Str = ""


class _Function(Wire):
    numa_node: Int | None = None
    pcie_root: Str | None = None


class _Host(Wire):
    numa_nodes: List[_Node] = ()
    cores: List[Str] = ()
    pci_functions: Map[_Function] = EMPTY_MAP


def read_host_text(text: str, name: str = "topology") -> HostTopology:
    """The topology in a text; ``name`` says where it comes from. Raises :class:`virt_dra.api.wire.WireError` naming
    every fault."""
    try:
        documents = read_documents(text.encode(), name)
    except DocumentError as error:
        raise WireError(KIND, (("", str(error)),)) from None
    if len(documents) != 1:
        raise WireError(KIND, (("", f"{name} has {len(documents)} documents; a topology is one"),))
    host = _Host.from_wire(documents[0].raw)
    problems = tuple(_problems(host))
    if problems:
        raise WireError(KIND, problems)
    return HostTopology(
        nodes={node.id: _cpus(node.cpus) for node in sorted(host.numa_nodes, key=lambda node: node.id)},
        functions={
            address.lower(): PciLocation(function.numa_node, function.pcie_root)
            for address, function in host.pci_functions.items()
        },
        siblings={cpu: threads for core in host.cores for threads in (_cpus(core),) for cpu in threads},
    )


def host_text(host: HostTopology) -> dict[str, object]:
    """The topology as JSON, as :func:`read_host_text` reads it."""
    return {
        "numaNodes": [{"id": node, "cpus": cpu_list(cpus)} for node, cpus in host.nodes.items()],
        "cores": [cpu_list(threads) for threads in sorted(set(host.siblings.values()))],
        "pciFunctions": {
            address: {
                key: value
                for key, value in (("numaNode", location.numa_node), ("pcieRoot", location.pcie_root))
                if value is not None
            }
            for address, location in host.functions.items()
        },
    }


def _cpus(text: str) -> tuple[int, ...]:
    return tuple(sorted(parse_cpu_list(text))) if text else ()


def _problems(host: _Host) -> Iterator[tuple[str, str]]:
    yield from _problems_of_lists({f"numaNodes[{index}].cpus": node.cpus for index, node in enumerate(host.numa_nodes)})
    yield from _problems_of_lists({f"cores[{index}]": core for index, core in enumerate(host.cores)})
    seen: set[int] = set()
    for index, node in enumerate(host.numa_nodes):
        if node.id < 0 or node.id in seen:
            yield f"numaNodes[{index}].id", f"{node.id} must be 0 or more, and each only once"
        seen.add(node.id)
    for address, function in host.pci_functions.items():
        path = f"pciFunctions[{address}]"
        try:
            PciAddress.parse(address)
        except AddressSyntaxError as error:
            yield path, str(error)
        if function.numa_node is not None and function.numa_node < 0:
            yield f"{path}.numaNode", f"{function.numa_node} must be 0 or more; leave it out where it is unknown"
        if function.pcie_root is not None and _ROOT.fullmatch(function.pcie_root) is None:
            yield f"{path}.pcieRoot", f"{function.pcie_root!r} is no PCIe root; write for example pci0000:40"
    unknown: list[tuple[str, Wire]] = [("", host)]
    unknown += [(f"numaNodes[{index}].", node) for index, node in enumerate(host.numa_nodes)]
    unknown += [(f"pciFunctions[{address}].", function) for address, function in host.pci_functions.items()]
    for path, part in unknown:
        for field in part.model_extra or ():
            yield f"{path}{field}", "isn't a field of a topology"


def _problems_of_lists(lists: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The problems of lists of CPUs, by path: of malformed ones, and of CPUs that are in two of them."""
    paths: dict[int, str] = {}
    for path, text in lists.items():
        try:
            cpus = _cpus(text)
        except ValueError as error:
            yield path, str(error)
            continue
        shared = next((cpu for cpu in cpus if cpu in paths), None)
        if shared is not None:
            yield path, f"CPU {shared} is in {paths[shared]}, too"
        paths |= dict.fromkeys(cpus, path)
