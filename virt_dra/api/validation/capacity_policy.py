"""The request policy of a consumable capacity (A-22.11, C-14.5). Exact arithmetic."""

from __future__ import annotations

from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from virt_dra.api.validation.field_errors import Errors, forbidden, invalid, required
from virt_dra.api.validation.formats import unique_items
from virt_dra.api.validation.rules import Rules

VALID_VALUES_MAX = 10
INT64_MAX = 2**63 - 1


def capacity(value: DeviceCapacity, path: str, *, shared: bool, rules: Rules) -> Errors:
    """The faults of a capacity. ``shared``: the device allows multiple allocations; only then may it have a policy."""
    policy = value.request_policy
    if policy is None:
        return
    path = f"{path}.requestPolicy"
    if not shared:
        yield forbidden(path, "allowMultipleAllocations must be true")
    elif policy.valid_values and policy.valid_range is not None:
        yield forbidden(
            path, 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        )
    elif policy.valid_values:
        if policy.default is None:
            yield required(f"{path}.default", "required when validValues is defined")
        else:
            yield from _valid_values(policy, policy.default, value.value, f"{path}.validValues", rules)
    elif policy.valid_range is not None:
        if policy.default is None:
            yield required(f"{path}.default", "required when validRange is defined")
        else:
            yield from _valid_range(policy.valid_range, policy.default, value.value, f"{path}.validRange", rules)


def _valid_values(policy: CapacityRequestPolicy, default: Quantity, total: Quantity, path: str, rules: Rules) -> Errors:
    values = policy.valid_values
    for index in range(1, len(values)):
        if values[index - 1] > values[index]:
            yield invalid(f"{path}[{index}]", values[index], "values must be sorted in ascending order")

    def value(option: Quantity, at: str) -> Errors:
        if option > total:
            yield invalid(at, option, f"option is larger than capacity value: {total}")

    def key(option: Quantity) -> str:
        """The key by which Kubernetes compares values: the spelling, so that 0.5 and 500m differ (C-14.5)."""
        return option.decimal_text() if rules.gates.fractional_capacity_range else str(option.value())

    yield from unique_items(values, path, value, key, VALID_VALUES_MAX)
    # A list that is too long is not read, so the default isn't found in it either.
    if len(values) > VALID_VALUES_MAX or default not in values:
        yield invalid(path, default, "default value is not valid according to the requestPolicy")


def _valid_range(
    bounds: CapacityRequestPolicyRange, default: Quantity, total: Quantity, path: str, rules: Rules
) -> Errors:
    least, most, step = bounds.min, bounds.max, bounds.step
    if least is None:
        yield required(f"{path}.min", "required when validRange is defined")
        return
    if least > total:
        yield invalid(f"{path}.min", least, f"min is larger than capacity value: {total}")
    if default < least:
        yield invalid(f"{path}.default", default, f"default is less than min: {least}")
    if most is not None:
        if least > most:
            yield invalid(f"{path}.max", least, f"min is larger than max: {most}")
        if most > total:
            yield invalid(f"{path}.max", most, f"max is larger than capacity value: {total}")
        if default > most:
            yield invalid(f"{path}.default", default, f"default is more than max: {most}")

    named = [
        (name, bound)
        for name, bound in (("default", default), ("min", least), ("max", most), ("step", step))
        if bound is not None
    ]
    in_milli = rules.gates.fractional_capacity_range and not all(bound.is_integer() for _, bound in named)
    if in_milli:
        inexact = [(name, bound) for name, bound in named if not _is_milli(bound)]
        for name, bound in inexact:
            yield invalid(f"{path}.{name}", bound, "value cannot be represented as a milli value")
        if inexact:
            return
    if step is None:
        return
    if step.sign() <= 0:
        yield invalid(f"{path}.step", step, "must be greater than zero")
        return
    first = least + step
    if first > total:
        yield invalid(f"{path}.step", step, f"one step {first} is larger than capacity value: {total}")
    if not in_milli:
        outside = [(name, bound) for name, bound in named if bound.sign() < 0 or bound.as_fraction() > INT64_MAX]
        for name, bound in outside:
            limit = "must be greater than or equal to 0" if bound.sign() < 0 else f"must not be larger than {INT64_MAX}"
            yield invalid(f"{path}.{name}", bound, limit)
        if outside:
            return
    for value in (default, most):
        if value is not None and not _on_grid(value, least, step, in_milli):
            yield invalid(f"{path}.step", value, f"value is not a multiple of a given step ({step}) from ({least})")


def _is_milli(quantity: Quantity) -> bool:
    """True for a whole number of thousandths that fits into 64 bits."""
    milli = quantity * 1000
    return milli.is_integer() and abs(milli.as_fraction()) <= INT64_MAX


def _on_grid(value: Quantity, least: Quantity, step: Quantity, in_milli: bool) -> bool:
    """True if value = least + n * step. Without fractional ranges every quantity is rounded up to an integer."""
    if in_milli:
        return (value.as_fraction() - least.as_fraction()) % step.as_fraction() == 0
    return (value.value() - least.value()) % step.value() == 0
