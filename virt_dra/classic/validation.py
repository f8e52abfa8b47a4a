"""The API server's rules for the objects of classic DRA: defaults and validation (C-18.1, C-18.3). Pure; every fault at
once."""

from __future__ import annotations

from collections.abc import Sequence

from virt_dra.api import names
from virt_dra.api.meta import TypedObject
from virt_dra.api.names import byte_length
from virt_dra.api.resource_v1 import ResourceClaimConsumerReference
from virt_dra.api.validation.field_errors import (
    Errors,
    FieldError,
    duplicate,
    each_invalid,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from virt_dra.api.validation.formats import driver, subdomain, unique_items
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
    NamedResourcesAttribute,
    NamedResourcesSelector,
    NamedResourcesSlice,
    ParametersReference,
    PodSchedulingContext,
    ResourceClaimParameters,
    ResourceClass,
    ResourceClassParameters,
)

SELECTOR_BYTES = 10 * 1024
"""Of one expression; Kubernetes limits only the object. Ours is the limit of device selectors (A-22)."""


def with_defaults(obj: TypedObject) -> TypedObject:
    """The object with its implied values: a claim waits for its first consumer."""
    if isinstance(obj, ClassicClaim):
        return obj if obj.spec.allocation_mode else obj.with_(spec=_with_mode(obj.spec))
    if isinstance(obj, ClassicClaimTemplate) and not obj.spec.spec.allocation_mode:
        return obj.with_(spec=obj.spec.with_(spec=_with_mode(obj.spec.spec)))
    return obj


def _with_mode(spec: ClassicClaimSpec) -> ClassicClaimSpec:
    return spec.with_(allocation_mode=WAIT_FOR_FIRST_CONSUMER)


def classic_faults(obj: TypedObject) -> tuple[FieldError, ...]:
    """The faults of an object's content before it is stored, without metadata."""
    match obj:
        case ClassicClaim():
            errors = _claim_spec(obj.spec, "spec")
        case ClassicClaimTemplate():
            errors = _claim_spec(obj.spec.spec, "spec.spec")
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
        return () if new.spec == old.spec else (immutable("spec", new.spec),)
    if isinstance(new, NamedResourcesSlice) and isinstance(old, NamedResourcesSlice):
        pairs = (("nodeName", new.node_name, old.node_name), ("driverName", new.driver_name, old.driver_name))
        changed = tuple(immutable(path, value) for path, value, before in pairs if value != before)
        return (*classic_faults(new), *changed)
    return classic_faults(new)


def classic_status_faults(new: TypedObject, old: TypedObject) -> tuple[FieldError, ...]:
    """The faults of a new status (C-18.3)."""
    if isinstance(new, ClassicClaim) and isinstance(old, ClassicClaim):
        return tuple(_claim_status(new, old.status))
    if isinstance(new, PodSchedulingContext):
        return tuple(_scheduling_status(new))
    return ()


# --- claims and classes ---


def _claim_spec(spec: ClassicClaimSpec, path: str) -> Errors:
    if spec.controller is not None:
        yield from driver(spec.controller, f"{path}.controller")
    elif not spec.resource_class_name:
        yield required(f"{path}.resourceClassName")
    else:
        yield from subdomain(spec.resource_class_name, f"{path}.resourceClassName")
    yield from _parameters_ref(spec.parameters_ref, f"{path}.parametersRef")
    modes = (IMMEDIATE, WAIT_FOR_FIRST_CONSUMER)
    if spec.allocation_mode not in modes:
        yield not_supported(f"{path}.allocationMode", spec.allocation_mode, modes)


def _parameters_ref(reference: ParametersReference | None, path: str) -> Errors:
    if reference is None:
        return
    if reference.api_group:
        yield from subdomain(reference.api_group, f"{path}.apiGroup")
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
    if status.driver_name:
        yield from driver(status.driver_name, "status.driverName")
    elif status.allocation is not None:
        yield required("status.driverName", "must be specified when `allocation` is set")
    if status.allocation is not None:
        yield from _allocation(status.allocation, "status.allocation")
        if before.allocation is not None and status.allocation != before.allocation:
            yield immutable("status.allocation", status.allocation)
    yield from unique_items(
        status.reserved_for, "status.reservedFor", _consumer, lambda consumer: consumer.uid, RESERVED_FOR_MAX
    )
    yield from _reservations(new, before)
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
    if not status.allocation.shareable and len(status.reserved_for) > 1:
        yield forbidden(path, "may not be reserved more than once")
    ending = status.deallocation_requested or new.metadata.deletion_timestamp is not None
    if ending and any(consumer not in before.reserved_for for consumer in status.reserved_for):
        yield forbidden(
            path, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        )


def _allocation(allocation: ClassicAllocation, path: str) -> Errors:
    handles = f"{path}.resourceHandles"
    if len(allocation.resource_handles) > HANDLES_MAX:
        yield too_many(handles, len(allocation.resource_handles), HANDLES_MAX)
        return
    for index, handle in enumerate(allocation.resource_handles):
        yield from driver(handle.driver_name, f"{handles}[{index}].driverName")
        if byte_length(handle.data) > HANDLE_BYTES:
            yield too_long(f"{handles}[{index}].data", HANDLE_BYTES)
        if handle.data and handle.structured_data is not None:
            yield invalid(f"{handles}[{index}]", None, "data and structuredData are mutually exclusive")
    if allocation.available_on_nodes is not None:
        yield from node_selector(allocation.available_on_nodes, f"{path}.availableOnNodes")


def _consumer(reference: ResourceClaimConsumerReference, path: str) -> Errors:
    for field, value in (("resource", reference.resource), ("name", reference.name), ("uid", reference.uid)):
        if not value:
            yield required(f"{path}.{field}")


# --- scheduling contexts ---


def _scheduling_spec(obj: PodSchedulingContext) -> Errors:
    if obj.spec.selected_node:
        yield from subdomain(obj.spec.selected_node, "spec.selectedNode")
    yield from _nodes(obj.spec.potential_nodes, "spec.potentialNodes")


def _scheduling_status(obj: PodSchedulingContext) -> Errors:
    path, seen = "status.resourceClaims", set[str]()
    for index, claim in enumerate(obj.status.resource_claims):
        if not claim.name:
            yield required(f"{path}[{index}].name")
        elif claim.name in seen:
            yield duplicate(f"{path}[{index}].name", claim.name)
        seen.add(claim.name)
        yield from _nodes(claim.unsuitable_nodes, f"{path}[{index}].unsuitableNodes")


def _nodes(nodes: Sequence[str], path: str) -> Errors:
    """A set of node names."""
    if len(nodes) > NODES_MAX:
        yield too_many(path, len(nodes), NODES_MAX)
        return
    for index, node in enumerate(nodes):
        if node in nodes[:index]:
            yield duplicate(f"{path}[{index}]", node)
        else:
            yield from subdomain(node, f"{path}[{index}]")


# --- structured parameters ---


def _slice(obj: NamedResourcesSlice) -> Errors:
    if obj.node_name:
        yield from subdomain(obj.node_name, "nodeName")
    yield from driver(obj.driver_name, "driverName")
    if obj.named_resources is None:
        yield required("namedResources", "exactly one field must be set")
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
            yield from _attribute(attribute, f"{path}.attributes[{at}]")
            if attribute.name in attributes:
                yield duplicate(f"{path}.attributes[{at}].name", attribute.name)
            attributes.add(attribute.name)


def _attribute(attribute: NamedResourcesAttribute, path: str) -> Errors:
    yield from subdomain(attribute.name, f"{path}.name")
    values = (
        attribute.quantity, attribute.bool_value, attribute.int_value, attribute.int_slice, attribute.string,
        attribute.string_slice, attribute.version,
    )  # fmt: skip
    given = sum(value is not None for value in values)
    if given == 0:
        yield required(path, "exactly one value must be set")
    elif given > 1:
        yield invalid(path, attribute, "exactly one field must be set, not several")


def _class_parameters(obj: ResourceClassParameters) -> Errors:
    yield from _parameters_ref(obj.generated_from, "generatedFrom")
    for index, filter_ in enumerate(obj.filters):
        yield from driver(filter_.driver_name, f"filters[{index}].driverName")
        yield from _selector(filter_.named_resources, f"filters[{index}]")
    for index, vendor in enumerate(obj.vendor_parameters):
        yield from driver(vendor.driver_name, f"vendorParameters[{index}].driverName")


def _claim_parameters(obj: ResourceClaimParameters) -> Errors:
    yield from _parameters_ref(obj.generated_from, "generatedFrom")
    for index, requests in enumerate(obj.driver_requests):
        path = f"driverRequests[{index}]"
        yield from driver(requests.driver_name, f"{path}.driverName")
        for at, request in enumerate(requests.requests):
            yield from _selector(request.named_resources, f"{path}.requests[{at}]")


def _selector(selector: NamedResourcesSelector | None, path: str) -> Errors:
    if selector is None:
        yield required(f"{path}.namedResources", "exactly one field must be set")
        return
    at = f"{path}.namedResources.selector"
    if not selector.selector:
        yield required(at)
    elif byte_length(selector.selector) > SELECTOR_BYTES:
        yield too_long(at, SELECTOR_BYTES)
    else:
        try:
            compile_attribute_selector(selector.selector)
        except CompileError as error:
            yield invalid(at, selector.selector, str(error))
