"""ResourceClaim.status: shape and transitions of an allocation are checked, its choice of devices is trusted (A-22.9,
C-14.3).

No rule ties results to the requested count, to a class or to existing slices.
"""

from __future__ import annotations

import ipaddress
import re

from virt_dra.api.names import byte_length
from virt_dra.api.resource_v1 import (
    AllocatedDeviceStatus,
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceRequestAllocationResult,
    NetworkDeviceData,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from virt_dra.api.validation.claims import RequestNames, request_names, request_reference, request_references
from virt_dra.api.validation.conditions import conditions
from virt_dra.api.validation.device_operations import binding_conditions, skipped_operations
from virt_dra.api.validation.expressions import configuration, json_object
from virt_dra.api.validation.field_errors import Errors, Struct, forbidden, invalid, not_supported, required, too_long
from virt_dra.api.validation.formats import (
    declared_driver,
    declared_pool,
    driver,
    items,
    label,
    pool,
    required_by,
    time,
    uid,
    unique_items,
)
from virt_dra.api.validation.go_values import versioned
from virt_dra.api.validation.node_selectors import node_selector
from virt_dra.api.validation.taints import toleration

RESERVED_FOR_MAX = 256
RESULTS_MAX = 32
ALLOCATION_CONFIGURATIONS_MAX = 64
DEVICE_CONDITIONS_MAX = 8
DEVICE_DATA_MAX = 10 * 1024
INTERFACE_NAME_MAX = 256
HARDWARE_ADDRESS_MAX = 128
IPS_MAX = 16
SOURCES = ("FromClaim", "FromClass")

DeviceKey = tuple[str, str, str, str | None]
"""The driver, pool, device and share of a result."""


def claim_status_update(new: ResourceClaim, old: ResourceClaim) -> Errors:
    """The faults of a status update. ``new`` has the stored metadata and spec."""
    status, before = new.status, old.status
    if status.allocation is not None and before.allocation is None:
        yield from _allocation(status.allocation, "status.allocation", request_names(new.spec.devices))
    elif status.allocation is not None and status.allocation != before.allocation:
        yield invalid("status.allocation", None, "field cannot be modified once set")
    yield from unique_items(
        status.reserved_for, "status.reservedFor", _consumer, lambda entry: entry.uid, RESERVED_FOR_MAX, shown=versioned
    )
    if status.reserved_for and status.allocation is None:
        yield forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif new.metadata.deletion_timestamp is not None and any(
        entry not in before.reserved_for for entry in status.reserved_for
    ):
        yield forbidden(
            "status.reservedFor",
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
        )
    allocated = (
        frozenset(map(_key, status.allocation.devices.results)) if status.allocation is not None else frozenset()
    )
    yield from unique_items(
        status.devices, "status.devices", lambda entry, at: _device_status(entry, at, allocated), _key, shown=versioned
    )


def _key(device: DeviceRequestAllocationResult | AllocatedDeviceStatus) -> DeviceKey:
    return (device.driver, device.pool, device.device, device.share_id)


def _shown_key(device: AllocatedDeviceStatus) -> object:
    return Struct(Driver=device.driver, Pool=device.pool, Device=device.device, ShareID=device.share_id or "")


def _consumer(reference: ResourceClaimConsumerReference, path: str) -> Errors:
    for field, value in (("resource", reference.resource), ("name", reference.name), ("uid", reference.uid)):
        if not value:
            yield required(f"{path}.{field}")


def _allocation(allocation: AllocationResult, path: str, names: RequestNames) -> Errors:
    yield from items(
        allocation.devices.results, f"{path}.devices.results", lambda entry, at: _result(entry, at, names), RESULTS_MAX
    )
    yield from items(
        allocation.devices.config,
        f"{path}.devices.config",
        lambda entry, at: _config(entry, at, names),
        ALLOCATION_CONFIGURATIONS_MAX,
    )
    if allocation.node_selector is not None:
        yield from node_selector(allocation.node_selector, f"{path}.nodeSelector")
    yield from time(allocation.allocation_timestamp, f"{path}.allocationTimestamp")


def _result(result: DeviceRequestAllocationResult, path: str, names: RequestNames) -> Errors:
    yield from request_reference(result.request, f"{path}.request", names)
    yield from declared_driver(result.driver, f"{path}.driver")
    yield from required_by(declared_pool, result.pool, f"{path}.pool")
    yield from label(result.device, f"{path}.device")
    yield from items(result.tolerations, f"{path}.tolerations", toleration)
    yield from binding_conditions(result, path)
    if result.share_id is not None:
        yield from uid(result.share_id, f"{path}.shareID")
    yield from skipped_operations(result.skip_node_operations, f"{path}.skipNodeOperations")


def _config(entry: DeviceAllocationConfiguration, path: str, names: RequestNames) -> Errors:
    if not entry.source:
        yield required(f"{path}.source")
    elif entry.source not in SOURCES:
        yield not_supported(f"{path}.source", entry.source, SOURCES)
    yield from request_references(entry.requests, f"{path}.requests", names)
    yield from configuration(entry.opaque, path)


def _device_status(device: AllocatedDeviceStatus, path: str, allocated: frozenset[DeviceKey]) -> Errors:
    yield from driver(device.driver, f"{path}.driver")
    yield from pool(device.pool, f"{path}.pool")
    yield from label(device.device, f"{path}.device")
    if device.share_id is not None:
        yield from uid(device.share_id, f"{path}.shareID")
    if _key(device) not in allocated:
        yield invalid(path, _shown_key(device), "must be an allocated device in the claim")
    yield from conditions(device.conditions, f"{path}.conditions", DEVICE_CONDITIONS_MAX)
    if device.data is not None:
        yield from json_object(device.data, f"{path}.data", DEVICE_DATA_MAX)
    if device.network_data is not None:
        yield from _network_data(device.network_data, f"{path}.networkData")


def _network_data(data: NetworkDeviceData, path: str) -> Errors:
    if byte_length(data.interface_name) > INTERFACE_NAME_MAX:
        yield too_long(f"{path}.interfaceName", INTERFACE_NAME_MAX)
    yield from unique_items(data.ips, f"{path}.ips", _interface_address, lambda address: address, IPS_MAX)
    if byte_length(data.hardware_address) > HARDWARE_ADDRESS_MAX:
        yield too_long(f"{path}.hardwareAddress", HARDWARE_ADDRESS_MAX)


_LEADING_ZEROS = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])")


def _interface_address(address: str, path: str) -> Errors:
    """An address and its network's length, ``10.9.8.7/24``, in canonical form."""
    host, slash, length = address.partition("/")
    canonical = _canonical_address(host, length) if slash else None
    if canonical is None:
        yield invalid(path, address, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)")
    elif canonical != address:
        yield invalid(path, address, f'must be in canonical form ("{canonical}")')


def _canonical_address(host: str, length: str) -> str | None:
    """The canonical form, or None if it is not an address. Leading zeros in IPv4 are read as decimal, as upstream."""
    if not re.fullmatch("[0-9]{1,3}", length):
        return None
    try:
        ip = ipaddress.ip_address(_LEADING_ZEROS.sub("", host) if ":" not in host else host)
    except ValueError:
        return None
    bits = int(length)
    if bits > ip.max_prefixlen or "%" in host:
        return None
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        return f"{ip.ipv4_mapped}/{bits - 96 if bits > 32 else bits}"
    return f"{ip}/{bits}"
