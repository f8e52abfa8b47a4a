"""Validation of core/v1 NodeSelectors in slices, devices and allocations, and of meta/v1 LabelSelectors."""

from __future__ import annotations

from virt_dra.api import names
from virt_dra.api.core_v1 import LabelSelector, NodeSelector, NodeSelectorRequirement
from virt_dra.api.validation.field_errors import Errors, TypedText, each_invalid, forbidden, invalid, required
from virt_dra.api.validation.formats import items, label_name, subdomain

_UNKNOWN_OPERATOR = "not a valid selector operator"


def node_selector(selector: NodeSelector, path: str) -> Errors:
    terms = f"{path}.nodeSelectorTerms"
    if not selector.node_selector_terms:
        yield required(terms, "must have at least one node selector term")
    for index, term in enumerate(selector.node_selector_terms):
        yield from items(term.match_expressions, f"{terms}[{index}].matchExpressions", _expression)
        yield from items(term.match_fields, f"{terms}[{index}].matchFields", _field)


def label_selector(selector: LabelSelector, path: str) -> Errors:
    for key, value in selector.match_labels.items():
        yield from label_name(key, f"{path}.matchLabels")
        yield from each_invalid(f"{path}.matchLabels", value, names.label_value(value))
    for index, requirement in enumerate(selector.match_expressions):
        if requirement.operator in ("Gt", "Lt"):
            operator = TypedText(requirement.operator)
            yield invalid(f"{path}.matchExpressions[{index}].operator", operator, _UNKNOWN_OPERATOR)
        else:
            yield from _expression(requirement, f"{path}.matchExpressions[{index}]")


def _expression(requirement: NodeSelectorRequirement, path: str) -> Errors:
    count = len(requirement.values)
    if requirement.operator in ("In", "NotIn"):
        if count == 0:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif requirement.operator in ("Exists", "DoesNotExist"):
        if count > 0:
            yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif requirement.operator in ("Gt", "Lt"):
        if count != 1:
            yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield invalid(f"{path}.operator", TypedText(requirement.operator), _UNKNOWN_OPERATOR)
    yield from label_name(requirement.key, f"{path}.key")
    for index, value in enumerate(requirement.values):
        yield from each_invalid(f"{path}.values[{index}]", value, names.label_value(value))


def _field(requirement: NodeSelectorRequirement, path: str) -> Errors:
    if requirement.operator not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", TypedText(requirement.operator), _UNKNOWN_OPERATOR)
    elif len(requirement.values) != 1:
        yield required(
            f"{path}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        )
    if requirement.key != "metadata.name":
        yield invalid(f"{path}.key", requirement.key, "not a valid field selector key")
        return
    yield from items(requirement.values, f"{path}.values", subdomain)
