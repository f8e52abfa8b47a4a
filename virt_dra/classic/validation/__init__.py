"""The API server's rules for the objects of classic DRA: defaults and validation (C-18.1, C-18.3), all faults at
once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain
from typing import TypeVar

from virt_dra.api import names
from virt_dra.api.go_text import quoted
from virt_dra.api.meta import TypedObject
from virt_dra.api.names import byte_length
from virt_dra.api.resource_v1 import EXACT_COUNT, ResourceClaimConsumerReference
from virt_dra.api.semver import SemVer, SemVerError
from virt_dra.api.validation.field_errors import (
    Errors,
    ErrorType,
    FieldError,
    duplicate,
    each_invalid,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
)
from virt_dra.api.validation.formats import subdomain
from virt_dra.api.validation.metadata import of_template
from virt_dra.api.validation.node_selectors import node_selector
from virt_dra.cel import CompileError
from virt_dra.classic.named_resources import compile_attribute_selector
from virt_dra.classic.objects import (
    HANDLE_BYTES,
    HANDLES_MAX,
    IMMEDIATE,
    NODES_MAX,
    RESERVED_FOR_MAX,
    WAIT_FOR_FIRST_CONSUMER,
    ClassicAllocation,
    ClassicClaim,
    ClassicClaimSpec,
    ClassicClaimStatus,
    ClassicClaimTemplate,
    ClassicDeviceClass,
    ClassicDeviceRequest,
    NamedResourcesAttribute,
    NamedResourcesSelector,
    NamedResourcesSlice,
    ParametersReference,
    PodSchedulingContext,
    ResourceClaimParameters,
    ResourceClass,
    ResourceClassParameters,
    StructuredHandle,
)
from virt_dra.classic.validation.device_claims import device_claim, driver, longer

SELECTOR_BYTES = 10 * 1024
"""Of one expression; Kubernetes limits only the object. Ours is the limit of device selectors (A-22)."""


def with_defaults(obj: TypedObject) -> TypedObject:
    """The object with its implied values: a claim waits for its first consumer, a request is for one device."""
    if isinstance(obj, ClassicClaim):
        return obj.with_(spec=_with_spec_defaults(obj.spec))
    if isinstance(obj, ClassicClaimTemplate):
        return obj.with_(spec=obj.spec.with_(spec=_with_spec_defaults(obj.spec.spec)))
    return obj


def _with_spec_defaults(spec: ClassicClaimSpec) -> ClassicClaimSpec:
    if not spec.allocation_mode:
        spec = spec.with_(allocation_mode=WAIT_FOR_FIRST_CONSUMER)
    if spec.controller is None or spec.devices is None or not spec.devices.requests:
        return spec
    requests = tuple(_with_count(request) for request in spec.devices.requests)
    return spec.with_(devices=spec.devices.with_(requests=requests))


def _with_count(request: ClassicDeviceRequest) -> ClassicDeviceRequest:
    mode = request.allocation_mode or EXACT_COUNT
    counted = request.with_(count=1) if mode == EXACT_COUNT and request.count == 0 else request
    return counted.with_(allocation_mode=mode)


def classic_faults(obj: TypedObject) -> tuple[FieldError, ...]:
    """The faults of an object's content before it is stored, without metadata."""
    match obj:
        case ClassicClaim():
            errors = _claim_spec(obj.spec, "spec")
        case ClassicClaimTemplate():
            errors = chain(of_template(obj.spec.metadata, "spec.metadata"), _claim_spec(obj.spec.spec, "spec.spec"))
        case ResourceClass():
            errors = _resource_class(obj)
        case ClassicDeviceClass():
            errors = (
                iter(())
                if obj.spec.suitable_nodes is None
                else node_selector(obj.spec.suitable_nodes, "spec.suitableNodes")
            )
        case PodSchedulingContext():
            errors = _scheduling_spec(obj)
        case NamedResourcesSlice():
            errors = _slice(obj)
        case ResourceClassParameters():
            errors = _class_parameters(obj)
        case ResourceClaimParameters():
            errors = _claim_parameters(obj)
        case _:
            errors = iter(())
    return tuple(errors)


def classic_update_faults(new: TypedObject, old: TypedObject) -> tuple[FieldError, ...]:
    """The faults of replacing an object's content: claims and templates keep their spec."""
    if isinstance(new, ClassicClaim | ClassicClaimTemplate) and isinstance(old, ClassicClaim | ClassicClaimTemplate):
        changed = () if new.spec == old.spec else (immutable("spec", new.spec),)
        faults = classic_faults(new)
        spec = new.spec if isinstance(new.spec, ClassicClaimSpec) else new.spec.spec
        return (*changed, *faults) if spec.controller is None else (*faults, *changed)
    if isinstance(new, NamedResourcesSlice) and isinstance(old, NamedResourcesSlice):
        pairs = (("nodeName", new.node_name, old.node_name), ("driverName", new.driver_name, old.driver_name))
        moved = tuple(immutable(path, value) for path, value, before in pairs if value != before)
        return (*classic_faults(new), *moved)
    return classic_faults(new)


def classic_status_faults(new: TypedObject, old: TypedObject) -> tuple[FieldError, ...]:
    """The faults of a new status (C-18.3)."""
    if isinstance(new, ClassicClaim) and isinstance(old, ClassicClaim):
        return tuple(_claim_status(new, old.status))
    if isinstance(new, PodSchedulingContext):
        return tuple(_scheduling_status(new))
    return ()


# --- formats, in the words of these releases ---

T = TypeVar("T")


def _set(
    items: Sequence[T],
    path: str,
    limit: int,
    check: Callable[[T, str], Iterable[FieldError]],
    key: Callable[[T], Hashable],
    field: str = "",
) -> Errors:
    """Items of a list with distinct keys; ``field``: the key's path in the item. A long list is read to its end."""
    seen: set[Hashable] = set()
    for index, item in enumerate(items):
        if key(item) in seen:
            yield duplicate(f"{path}[{index}]{field}", key(item))
        else:
            yield from check(item, f"{path}[{index}]")
            seen.add(key(item))
    if len(items) > limit:
        yield longer(path, limit)


def _new_driver(name: str, path: str, seen: set[str]) -> Errors:
    """The driver of an entry, which no earlier one has; adds it to ``seen``."""
    yield from driver(name, path)
    if name in seen:
        yield duplicate(path, name)
    seen.add(name)


# --- claims and classes ---


def _claim_spec(spec: ClassicClaimSpec, path: str) -> Errors:
    if spec.controller is not None:
        if spec.devices is not None:
            yield from device_claim(spec.devices, f"{path}.devices")
        yield from driver(spec.controller, f"{path}.controller")
    else:
        yield from subdomain(spec.resource_class_name, f"{path}.resourceClassName")
    yield from _parameters_ref(spec.parameters_ref, f"{path}.parametersRef")
    modes = (IMMEDIATE, WAIT_FOR_FIRST_CONSUMER)
    if spec.allocation_mode not in modes:
        yield not_supported(f"{path}.allocationMode", spec.allocation_mode, modes)


def _parameters_ref(reference: ParametersReference | None, path: str) -> Errors:
    if reference is None:
        return
    if not reference.kind:
        yield required(f"{path}.kind")
    if not reference.name:
        yield required(f"{path}.name")
    if reference.namespace:
        yield from each_invalid(f"{path}.namespace", reference.namespace, names.dns1123_label(reference.namespace))


def _resource_class(obj: ResourceClass) -> Errors:
    yield from driver(obj.driver_name, "driverName")
    yield from _parameters_ref(obj.parameters_ref, "parametersRef")
    if obj.suitable_nodes is not None:
        yield from node_selector(obj.suitable_nodes, "suitableNodes")


def _claim_status(new: ClassicClaim, before: ClassicClaimStatus) -> Errors:
    status = new.status
    modern = new.spec.controller is not None
    if status.driver_name:
        yield from driver(status.driver_name, "status.allocation.controller" if modern else "status.driverName")
    elif status.allocation is not None and not modern:
        yield required("status.driverName", "must be specified when `allocation` is set")
    if status.allocation is not None:
        yield from _allocation(status.allocation, "status.allocation", modern=modern)
    reserved = "status.reservedFor"
    yield from _set(status.reserved_for, reserved, RESERVED_FOR_MAX, _consumer, lambda consumer: consumer.uid, ".uid")
    yield from _reservations(new, before)
    if status.allocation is not None and before.allocation not in (None, status.allocation):
        yield immutable("status.allocation", status.allocation)
    if status.deallocation_requested and not before.deallocation_requested and status.reserved_for:
        yield forbidden("status.deallocationRequested", "deallocation cannot be requested while `reservedFor` is set")
    if status.deallocation_requested and status.allocation is None:
        yield forbidden("status", "`allocation` must be set when `deallocationRequested` is set")
    if before.deallocation_requested and not status.deallocation_requested and status.allocation is not None:
        yield forbidden("status.deallocationRequested", "may not be cleared when `allocation` is set")


def _reservations(new: ClassicClaim, before: ClassicClaimStatus) -> Errors:
    status, path = new.status, "status.reservedFor"
    if not status.reserved_for:
        return
    if status.allocation is None:
        yield forbidden(path, "may not be specified when `allocated` is not set")
        return
    shareable = status.allocation.shareable or new.spec.controller is not None
    if not shareable and len(status.reserved_for) > 1:
        yield forbidden(path, "may not be reserved more than once")
    ending = status.deallocation_requested or new.metadata.deletion_timestamp is not None
    if ending and any(consumer not in before.reserved_for for consumer in status.reserved_for):
        yield forbidden(
            path, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        )


def _allocation(allocation: ClassicAllocation, path: str, *, modern: bool) -> Errors:
    """``modern``: of v1alpha3, where the nodes are called otherwise."""
    handles = f"{path}.resourceHandles"
    for index, handle in enumerate(allocation.resource_handles):
        at = f"{handles}[{index}]"
        yield from driver(handle.driver_name, f"{at}.driverName")
        if byte_length(handle.data) > HANDLE_BYTES:
            yield longer(f"{at}.data", HANDLE_BYTES)
        if handle.structured_data is not None:
            yield from _structured_handle(handle.structured_data, f"{at}.structuredData")
        if handle.data and handle.structured_data is not None:
            both = "data and structuredData are mutually exclusive"
            yield FieldError(ErrorType.INVALID, at, '"null"', both)
    if len(allocation.resource_handles) > HANDLES_MAX:
        yield longer(handles, HANDLES_MAX)
    if allocation.available_on_nodes is not None:
        nodes = "nodeSelector" if modern else "availableOnNodes"
        yield from node_selector(allocation.available_on_nodes, f"{path}.{nodes}")


def _structured_handle(handle: StructuredHandle, path: str) -> Errors:
    if handle.node_name:
        yield from subdomain(handle.node_name, f"{path}.nodeName")
    for index, result in enumerate(handle.results):
        at = f"{path}.results[{index}]"
        if result.named_resources is None:
            yield required(at, _ONE_MODEL)
        else:
            yield from subdomain(result.named_resources.name, f"{at}.namedResources.name")


def _consumer(reference: ResourceClaimConsumerReference, path: str) -> Errors:
    for field, value in (("resource", reference.resource), ("name", reference.name), ("uid", reference.uid)):
        if not value:
            yield required(f"{path}.{field}")


# --- scheduling contexts ---


def _scheduling_spec(obj: PodSchedulingContext) -> Errors:
    yield from _nodes(obj.spec.potential_nodes, "spec.potentialNodes")


def _scheduling_status(obj: PodSchedulingContext) -> Errors:
    """The path is not the field's: it is that of these releases."""
    path, seen = "status.claims", set[str]()
    for index, claim in enumerate(obj.status.resource_claims):
        yield from _nodes(claim.unsuitable_nodes, f"{path}[{index}].unsuitableNodes")
        if claim.name in seen:
            yield duplicate(f"{path}[{index}]", claim.name)
        seen.add(claim.name)


def _nodes(nodes: Sequence[str], path: str) -> Errors:
    """A set of node names."""
    yield from _set(nodes, path, NODES_MAX, subdomain, lambda node: node)


# --- structured parameters ---

_ONE_MODEL = "exactly one structured model field must be set"


def _slice(obj: NamedResourcesSlice) -> Errors:
    if obj.node_name:
        yield from subdomain(obj.node_name, "nodeName")
    yield from driver(obj.driver_name, "driverName")
    if obj.named_resources is None:
        yield required("<nil>", _ONE_MODEL)
        return
    seen: set[str] = set()
    for index, instance in enumerate(obj.named_resources.instances):
        path = f"namedResources.instances[{index}]"
        yield from subdomain(instance.name, f"{path}.name")
        if instance.name in seen:
            yield duplicate(f"{path}.name", instance.name)
        seen.add(instance.name)
        attributes: set[str] = set()
        for at, attribute in enumerate(instance.attributes):
            yield from subdomain(attribute.name, f"{path}.attributes[{at}].name")
            if attribute.name in attributes:
                yield duplicate(f"{path}.attributes[{at}].name", attribute.name)
            attributes.add(attribute.name)
            yield from _attribute(attribute, f"{path}.attributes[{at}]")


def _attribute(attribute: NamedResourcesAttribute, path: str) -> Errors:
    given = sorted(field for field in attribute.to_wire() if field in _VALUES)
    if attribute.version is not None and not _is_version(attribute.version):
        yield invalid(f"{path}.version", attribute.version, "must be a string compatible with semver.org spec 2.0.0")
    if not given:
        yield required(path, "exactly one value must be set")
    elif len(given) > 1:
        shown = f"[]string{{{', '.join(map(quoted, given))}}}"
        yield FieldError(ErrorType.INVALID, path, shown, "exactly one field must be set, not several")


def _is_version(text: str) -> bool:
    try:
        SemVer.parse(text)
    except SemVerError:
        return False
    return True


_VALUES = frozenset({"quantity", "bool", "int", "intSlice", "string", "stringSlice", "version"})


def _class_parameters(obj: ResourceClassParameters) -> Errors:
    yield from _parameters_ref(obj.generated_from, "generatedFrom")
    seen: set[str] = set()
    for index, filter_ in enumerate(obj.filters):
        yield from _new_driver(filter_.driver_name, f"filters[{index}].driverName", seen)
        yield from _selector(filter_.named_resources, f"filters[{index}]")
    seen = set()
    for index, vendor in enumerate(obj.vendor_parameters):
        yield from _new_driver(vendor.driver_name, f"vendorParameters[{index}].driverName", seen)


def _claim_parameters(obj: ResourceClaimParameters) -> Errors:
    yield from _parameters_ref(obj.generated_from, "generatedFrom")
    seen: set[str] = set()
    for index, requests in enumerate(obj.driver_requests):
        path = f"driverRequests[{index}].requests"
        yield from _new_driver(requests.driver_name, f"driverRequests[{index}].driverName", seen)
        for at, request in enumerate(requests.requests):
            yield from _selector(request.named_resources, f"{path}[{at}]")
        if not requests.requests:
            yield required(path, "empty entries with no requests are not allowed")


def _selector(selector: NamedResourcesSelector | None, path: str) -> Errors:
    if selector is None:
        yield required(path, _ONE_MODEL)
        return
    at = f"{path}.namedResources.selector"
    if not selector.selector:
        yield required(at)
    elif byte_length(selector.selector) > SELECTOR_BYTES:
        yield FieldError(ErrorType.TOO_LONG, at, "", f"must have at most {SELECTOR_BYTES} bytes")
    else:
        try:
            compile_attribute_selector(selector.selector)
        except CompileError as error:
            yield invalid(at, selector.selector, str(error))
