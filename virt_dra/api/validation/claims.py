"""ResourceClaim and ResourceClaimTemplate: requests, constraints, configuration (A-22.8, C-14.1, C-14.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from virt_dra.api.resource_v1 import (
    ALL,
    EXACT_COUNT,
    DeviceClaim,
    DeviceClaimConfiguration,
    DeviceConstraint,
    DeviceDerivedAttribute,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
)
from virt_dra.api.validation import metadata
from virt_dra.api.validation.expressions import configuration, expression, selectors, unchecked
from virt_dra.api.validation.field_errors import (
    Errors,
    TypedText,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
    too_many,
)
from virt_dra.api.validation.formats import (
    declared_subdomain,
    fully_qualified_name,
    items,
    label,
    required_by,
    subdomain,
    unique_items,
)
from virt_dra.api.validation.go_values import internal, versioned
from virt_dra.api.validation.rules import Rules
from virt_dra.api.validation.taints import toleration

REQUESTS_MAX = 32
ALTERNATIVES_MAX = 8
CONSTRAINTS_MAX = 32
CONFIGURATIONS_MAX = 32
DERIVED_ATTRIBUTES_MAX = 32
DERIVED_ATTRIBUTES_COST_MAX = 1_000_000

_NO_SUCH_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)

RequestNames = Mapping[str, frozenset[str]]
"""The requests of a claim, each with its alternatives' names (none for an exact request)."""


def claim(obj: ResourceClaim, rules: Rules) -> Errors:
    yield from device_claim(obj.spec.devices, "spec.devices", rules)


def claim_update(new: ResourceClaim, old: ResourceClaim) -> Errors:
    """The faults of an update: the spec is immutable, and messages don't show it. Nothing else is checked again."""
    if new.spec != old.spec:
        yield immutable("spec", None)


def template(obj: ResourceClaimTemplate, rules: Rules) -> Errors:
    yield from metadata.of_template(obj.spec.metadata, "spec.metadata")
    yield from device_claim(obj.spec.spec.devices, "spec.spec.devices", rules)


def template_update(new: ResourceClaimTemplate, old: ResourceClaimTemplate) -> Errors:
    if new.spec != old.spec:
        yield immutable("spec", internal(new.spec))


def request_names(devices: DeviceClaim) -> RequestNames:
    return {
        request.name: frozenset(alternative.name for alternative in request.first_available)
        for request in devices.requests
    }


@dataclass(frozen=True)
class _Scope:
    """The context in which the requests of one claim are checked."""

    rules: Rules
    constrained: Mapping[str, frozenset[str]]
    """Attributes of constraints, by what these target: a request, ``request/alternative`` or "" (all)."""

    def is_constrained(self, attribute: str, request: str) -> bool:
        targets = {"", request, request.partition("/")[0]}
        return any(attribute in self.constrained.get(target, ()) for target in targets)


def device_claim(devices: DeviceClaim, path: str, rules: Rules) -> Errors:
    """The faults of the claim's devices at ``path`` (``spec.devices``, or ``spec.spec.devices`` in a template)."""
    scope = _Scope(rules, _constrained_attributes(devices.constraints))
    names = request_names(devices)
    yield from unique_items(
        devices.requests,
        f"{path}.requests",
        lambda entry, at: _request(entry, at, scope),
        lambda entry: entry.name,
        REQUESTS_MAX,
        versioned,
    )
    yield from items(
        devices.constraints,
        f"{path}.constraints",
        lambda entry, at: _constraint(entry, at, names, rules),
        CONSTRAINTS_MAX,
    )
    yield from items(
        devices.config, f"{path}.config", lambda entry, at: _configuration(entry, at, names), CONFIGURATIONS_MAX
    )
    yield from _together(devices, path, rules)


def _together(devices: DeviceClaim, path: str, rules: Rules) -> Errors:
    """The limit on all derived attributes of the claim (A-21.8). Upstream adds in 64 bits."""
    if rules.derived_attribute_cost is None:
        return
    requests = [
        part for request in devices.requests for part in (request.exactly, *request.first_available) if part is not None
    ]
    expressions = [entry.expression for request in requests for entry in request.derived_attributes]
    if sum(map(rules.derived_attribute_cost, expressions)) % 2**64 > DERIVED_ATTRIBUTES_COST_MAX:
        yield forbidden(
            path, "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"
        )


def _request(request: DeviceRequest, path: str, scope: _Scope) -> Errors:
    yield from label(request.name, f"{path}.name")
    if request.exactly is not None and request.first_available:
        yield invalid(
            path, None, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        )
    elif request.exactly is not None:
        yield from _exact(request.exactly, f"{path}.exactly", request.name, scope)
    elif request.first_available:

        def alternative(entry: DeviceSubRequest, at: str) -> Errors:
            yield from label(entry.name, f"{at}.name")
            yield from _exact(entry, at, f"{request.name}/{entry.name}", scope)

        alternatives = request.first_available
        yield from unique_items(
            alternatives, f"{path}.firstAvailable", alternative, lambda entry: entry.name, ALTERNATIVES_MAX, versioned
        )
    else:
        yield required(path, "exactly one of `exactly` or `firstAvailable` is required")


def _exact(request: ExactDeviceRequest | DeviceSubRequest, path: str, name: str, scope: _Scope) -> Errors:
    """The faults of fields that an exact request and an alternative share. ``name`` is ``request`` or
    ``request/alternative``.

    Requested capacities are not validated: any key and any quantity passes.
    """
    # Declared only for alternatives, for which v1beta1 has the same shape.
    class_name = subdomain if isinstance(request, ExactDeviceRequest) else declared_subdomain
    yield from required_by(class_name, request.device_class_name, f"{path}.deviceClassName")
    yield from selectors(request.selectors, f"{path}.selectors", scope.rules.check_selector or unchecked)
    yield from allocation_mode(request, path)
    yield from items(request.tolerations, f"{path}.tolerations", toleration)
    yield from _derived_attributes(request.derived_attributes, f"{path}.derivedAttributes", name, scope)


class _Counted(Protocol):
    @property
    def allocation_mode(self) -> str: ...

    @property
    def count(self) -> int: ...


def allocation_mode(request: _Counted, path: str) -> Errors:
    """The faults of how many devices a request asks for, which are the same in every version of the API."""
    if request.allocation_mode == ALL:
        if request.count != 0:
            yield invalid(f"{path}.count", request.count, "must not be specified when allocationMode is 'All'")
    elif request.allocation_mode == EXACT_COUNT:
        if request.count <= 0:
            yield invalid(f"{path}.count", request.count, "must be greater than zero")
    else:
        yield not_supported(f"{path}.allocationMode", request.allocation_mode, (ALL, EXACT_COUNT))


def _derived_attributes(
    attributes: tuple[DeviceDerivedAttribute, ...], path: str, request: str, scope: _Scope
) -> Errors:
    """The faults of derived attributes. Each must be used by a constraint that targets this request, its parent or all
    requests. In a list over its limit only this and the expressions are checked.
    """
    too_long = len(attributes) > DERIVED_ATTRIBUTES_MAX
    if too_long:
        yield too_many(path, len(attributes), DERIVED_ATTRIBUTES_MAX)

    def attribute(entry: DeviceDerivedAttribute, at: str) -> Errors:
        if not entry.name:
            yield from () if too_long else iter((required(f"{at}.name"),))
        else:
            yield from () if too_long else fully_qualified_name(entry.name, f"{at}.name")
            if not scope.is_constrained(entry.name, request):
                rule = (
                    "must be referenced by at least one matchAttribute or "
                    "distinctAttribute constraint targeting this request"
                )
                yield invalid(f"{at}.name", TypedText(entry.name), rule)
        if not entry.expression:
            yield from () if too_long else iter((required(f"{at}.expression"),))
        else:
            yield from expression(
                entry.expression, f"{at}.expression", scope.rules.check_derived_attribute or unchecked
            )

    yield from unique_items(attributes, path, attribute, lambda entry: entry.name)


def _constrained_attributes(constraints: tuple[DeviceConstraint, ...]) -> Mapping[str, frozenset[str]]:
    attributes: dict[str, frozenset[str]] = {}
    for constraint in constraints:
        attribute = (
            constraint.match_attribute if constraint.match_attribute is not None else constraint.distinct_attribute
        )
        if attribute is not None:
            for target in constraint.requests or ("",):
                attributes[target] = attributes.get(target, frozenset()) | {attribute}
    return attributes


_ONE_KIND = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'


def _constraint(constraint: DeviceConstraint, path: str, names: RequestNames, rules: Rules) -> Errors:
    yield from request_references(constraint.requests, f"{path}.requests", names)
    match, distinct = constraint.match_attribute, constraint.distinct_attribute
    if match is not None and distinct is not None:
        # Kubernetes accepts both and applies only one of them (AC-5).
        yield invalid(path, "{matchAttribute, distinctAttribute}", _ONE_KIND)
    if match is not None:
        yield from fully_qualified_name(match, f"{path}.matchAttribute")
    if distinct is not None:
        yield from fully_qualified_name(distinct, f"{path}.distinctAttribute")
    if match is None and distinct is None:
        if rules.gates.consumable_capacity:
            yield required(path, _ONE_KIND)  # The wording is Kubernetes', although nothing is set here.
        else:
            yield required(f"{path}.matchAttribute")


def _configuration(entry: DeviceClaimConfiguration, path: str, names: RequestNames) -> Errors:
    yield from request_references(entry.requests, f"{path}.requests", names)
    yield from configuration(entry.opaque, path)


def request_references(references: tuple[str, ...], path: str, names: RequestNames) -> Errors:
    """The faults of references from a constraint or a configuration to requests, or to ``request/alternative``."""
    if len(references) > REQUESTS_MAX:
        yield too_many(path, len(references), REQUESTS_MAX)
        return
    yield from unique_items(
        references, path, lambda entry, at: request_reference(entry, at, names), lambda entry: entry
    )


def request_reference(reference: str, path: str, names: RequestNames) -> Errors:
    """The faults of one reference. The name of a request with alternatives is valid and means all of them."""
    parts = reference.split("/")
    if len(parts) > 2:
        yield invalid(path, reference, _NO_SUCH_REQUEST)
        return
    for part in parts:
        yield from label(part, path)
    declared = parts[0] in names and (len(parts) == 1 or parts[1] in names[parts[0]])
    if not declared:
        yield invalid(path, reference, _NO_SUCH_REQUEST)
