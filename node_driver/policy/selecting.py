"""Which PCI functions a set of a policy selects (D-39)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from node_driver.hardware.inventory import Hardware, PciFunction
from node_driver.policy.exclusions import listed
from virt_dra.api.nearest import did_you_mean
from virt_dra.api.policies.node_policy_v1alpha1 import FunctionSelector, PolicyDeviceSet

_COMPARED: Final[Mapping[str, tuple[str, Callable[[PciFunction], str]]]] = {
    "vendor": ("vendor", lambda function: function.vendor),
    "device": ("device", lambda function: function.device),
    "subsystem_vendor": ("subsystemVendor", lambda function: function.subsystem_vendor),
    "subsystem_device": ("subsystemDevice", lambda function: function.subsystem_device),
    "class_code": ("class", lambda function: function.class_code),
    "address": ("address", lambda function: function.address),
    "physical_function": ("physicalFunction", lambda function: function.physical_function),
    "driver": ("driver", lambda function: function.driver),
}
"""Field of a selector -> its name on the wire and what it is compared with."""
_HEXADECIMAL: Final = frozenset(_COMPARED) - {"driver"}


def selected(device_set: PolicyDeviceSet, hardware: Hardware) -> list[PciFunction]:
    """The functions that any of its selectors selects, by address."""
    return [
        function
        for _, function in sorted(hardware.functions.items())
        if any(selects(selector, function) for selector in device_set.select)
    ]


def selects(selector: FunctionSelector, function: PciFunction) -> bool:
    for field, (_, value) in _COMPARED.items():
        wanted = getattr(selector, field)
        if wanted is not None and not _agrees(field, wanted, value(function)):
            return False
    if selector.numa_node is not None and function.numa_node != selector.numa_node:
        return False
    indexes = selector.vf_indexes
    return indexes is None or (
        function.vf_index is not None
        and function.vf_index >= indexes.first
        and (indexes.last is None or function.vf_index <= indexes.last)
    )


def _agrees(field: str, wanted: str, value: str) -> bool:
    if field not in _HEXADECIMAL:
        return wanted == value
    wanted = wanted.lower()
    return value.startswith(wanted) if field == "class_code" else wanted == value


def why_nothing(selectors: Iterable[FunctionSelector], hardware: Hardware) -> str:
    """What is to be said of a set that selects nothing: fields that hold for no function of the node."""
    functions = hardware.functions.values()
    causes: list[str] = []
    for selector in selectors:
        for field, (name, value) in _COMPARED.items():
            wanted = getattr(selector, field)
            if wanted is None or any(_agrees(field, wanted, value(function)) for function in functions):
                continue
            values = sorted({value(function) for function in functions} - {""})
            hint = did_you_mean(wanted.lower() if field in _HEXADECIMAL else wanted, values)
            has = f" (there are {listed(values)})" if field in ("vendor", "driver") and values else ""
            causes.append(f"no function has {name} {wanted or 'none'}{has}{hint}")
        if selector.numa_node is not None and all(function.numa_node != selector.numa_node for function in functions):
            causes.append(f"no function is on NUMA node {selector.numa_node}")
        if selector.vf_indexes is not None and all(function.vf_index is None for function in functions):
            causes.append("there are no virtual functions; numVFs makes some")
    return "; ".join(dict.fromkeys(causes)) or "each of its fields holds for some function, but all of them for none"
