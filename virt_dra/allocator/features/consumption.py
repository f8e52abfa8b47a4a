"""The amounts that a request takes of a device's capacities: names, defaults, policies, rounding (A-17.1 to A-17.8).
Pure arithmetic.

Amounts are exact integers of billionths. Ranges with a step are computed in whole units, or in thousandths where the
range is fractional, and refuse what 64 bits can't hold in that unit: that is part of the rules (E21), not a limit of
ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity

CapacityRequests = Mapping[str, Quantity]
"""The amounts that a request wants, by capacity name, qualified or not."""

UNKNOWN = "CapacityMissing"
"""The device doesn't publish a capacity of the requested name."""
POLICY = "CapacityPolicyViolated"
"""The amount breaks the device's request policy."""
TOO_SMALL = "CapacityTooSmall"
"""The amount is more than the device has, even if nothing of it is in use."""

_MAX_INT64 = 2**63 - 1
_UNIT = 10**9
_MILLI = 10**6


@dataclass(frozen=True, slots=True, eq=False)
class Consumption:
    """The amounts that one share of the device takes. Tuples are in the order of the published names, sorted; amounts
    are in billionths."""

    quantities: Mapping[str, Quantity]
    amounts: tuple[int, ...]
    limits: tuple[int, ...]
    """The device's values: an amount never exceeds its limit."""


@dataclass(frozen=True, slots=True, eq=False)
class Refusal:
    """The device can't serve the request, whatever is in use. ``reason``: UNKNOWN, POLICY or TOO_SMALL."""

    reason: str
    capacity: str
    detail: str


@dataclass(frozen=True, slots=True, eq=False)
class Fault:
    """Broken input: a request or capacity that is an error as soon as the device is reached (E21, AC-23)."""

    text: str


Resolution = Consumption | Refusal | Fault


class _Broken(Exception):
    """The request or the policy is broken; ``str()`` says how."""


def qualified(driver: str, name: str) -> str:
    """The name with its domain: without one it is the driver's own (AC-13)."""
    return name if "/" in name else f"{driver}/{name}"


def resolve(
    driver: str, capacities: Mapping[str, DeviceCapacity], requested: CapacityRequests, *, fractional: bool
) -> Resolution:
    """The amounts that ``requested`` takes of an unused device (A-17.2 to A-17.6). ``fractional``:
    FractionalCapacityRange. Faults come before refusals; of several faults or refusals the one with the smallest name
    is returned (A-19.1)."""
    names = sorted(capacities)
    wanted, unknown = match(driver, names, requested)
    if unknown is not None:
        published = ", ".join(names) or "no capacity"
        return Refusal(
            UNKNOWN, unknown, f"capacity {unknown}: wanted {requested[unknown]}, the device publishes {published}"
        )
    consumed: dict[str, Quantity] = {}
    violations: list[Refusal] = []
    for name in names:
        capacity = capacities[name]
        try:
            consumed[name] = quantity = _consumed(capacity, wanted.get(name), fractional=fractional)
            if quantity.sign() < 0:
                raise _Broken("capacity value is negative")
            violation = _violation(quantity, capacity.request_policy, fractional=fractional)
        except _Broken as error:
            return Fault(f'capacity "{name}": {error}')
        if violation is not None:
            violations.append(Refusal(POLICY, name, f"capacity {name}: {quantity} {violation}"))
        elif quantity > capacity.value:
            violations.append(
                Refusal(TOO_SMALL, name, f"capacity {name}: wanted {quantity}, the device has {capacity.value}")
            )
    if violations:
        return violations[0]
    return Consumption(
        consumed,
        tuple(quantity.nano for quantity in consumed.values()),
        tuple(capacities[name].value.nano for name in names),
    )


def match(driver: str, published: Iterable[str], requested: CapacityRequests) -> tuple[dict[str, Quantity], str | None]:
    """The requested amounts by published name, and the first requested name that isn't published. Names are equal after
    qualifying them; where a request has both forms of one name the qualified one counts (AC-13)."""
    if not requested:
        return {}, None
    by_name = {qualified(driver, name): name for name in sorted(requested, key=lambda name: "/" in name)}
    amounts = {name: requested[by_name[full]] for name in published if (full := qualified(driver, name)) in by_name}
    full_names = {qualified(driver, name) for name in published}
    return amounts, min((name for name in requested if qualified(driver, name) not in full_names), default=None)


def _consumed(capacity: DeviceCapacity, wanted: Quantity | None, *, fractional: bool) -> Quantity:
    """The amount that a request for ``wanted`` takes (A-17.2). Raises :class:`_Broken`."""
    policy = capacity.request_policy
    if wanted is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return wanted
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded(wanted, policy.valid_range, policy.valid_range.min, fractional=fractional)
    return next((value for value in policy.valid_values if value >= wanted), wanted)


def _rounded(wanted: Quantity, range_: CapacityRequestPolicyRange, least: Quantity, *, fractional: bool) -> Quantity:
    """The amount rounded up to the range's next step (A-17.5, A-17.6). Raises :class:`_Broken` for amounts that the
    arithmetic can't represent (E21)."""
    if wanted < least:
        return least
    step = range_.step
    if step is None:
        return wanted
    unrepresentable = "capacity request cannot be represented in the device's range arithmetic"
    if in_milli(range_, fractional=fractional):
        amount = _exact_milli(wanted)
        if amount is None:
            raise _Broken(f"{unrepresentable}: request {_shown(wanted)} is not a representable milli value")
        rounded = _next_step(amount, least.milli_value(), step.milli_value())
        if rounded > _MAX_INT64:
            raise _Broken(
                f"{unrepresentable}: rounding request {_shown(wanted)} up to the next step passes the milli-value range"
            )
        return (
            Quantity.milli(rounded, step.format)
            if rounded % 1000
            else Quantity.from_number(rounded // 1000, step.format)
        )
    if wanted.nano > _MAX_INT64 * _UNIT:
        raise _Broken(f"{unrepresentable}: request {_shown(wanted)} exceeds MaxInt64")
    if step.nano <= 0:
        raise _not_positive(step)
    rounded = _next_step(wanted.value(), least.value(), step.value())
    if rounded > _MAX_INT64:
        raise _Broken(f"{unrepresentable}: rounding request {_shown(wanted)} up to the next step passes MaxInt64")
    return Quantity.from_number(rounded, step.format)


def _shown(wanted: Quantity) -> str:
    """The quantity as the reference prints it, which repeats some spellings."""
    return wanted.spelling.kept or str(wanted)


def _not_positive(step: Quantity) -> _Broken:
    return _Broken(f"request policy has a step of {step}, which is not positive")


def _next_step(amount: int, least: int, step: int) -> int:
    return least - (least - amount) // step * step


def in_milli(range_: CapacityRequestPolicyRange, *, fractional: bool) -> bool:
    """True if the range is computed in thousandths: one bound is fractional (AC-11), and all are exact thousandths in
    64 bits."""
    if not fractional:
        return False
    bounds = [bound for bound in (range_.min, range_.max, range_.step) if bound is not None]
    if all(bound.is_integer() for bound in bounds) or any(_exact_milli(bound) is None for bound in bounds):
        return False
    return range_.step is None or range_.step.nano >= _MILLI


def _exact_milli(quantity: Quantity) -> int | None:
    milli, rest = divmod(quantity.nano, _MILLI)
    return milli if rest == 0 and -_MAX_INT64 - 1 <= milli <= _MAX_INT64 else None


def _violation(amount: Quantity, policy: CapacityRequestPolicy | None, *, fractional: bool) -> str | None:
    """The violation of the policy in words, or None (A-17.4). Raises :class:`_Broken` for a policy that can't be
    applied (AC-23)."""
    if policy is None or _is_default(amount, policy.default):
        return None
    if policy.valid_range is not None:
        return _out_of_range(amount, policy.valid_range, fractional=fractional)
    if policy.valid_values and amount not in policy.valid_values:
        return f"is none of the valid values {', '.join(map(str, policy.valid_values))}"
    return None


def _is_default(amount: Quantity, default: Quantity | None) -> bool:
    """True if the amount is the default, in the same spelling: a default is allowed even where the policy excludes it.
    A default that upstream holds by reference is never recognised, as there."""
    return default is not None and default.spelling.scale is not None and amount.spelling == default.spelling


def _out_of_range(amount: Quantity, range_: CapacityRequestPolicyRange, *, fractional: bool) -> str | None:
    if range_.max is not None and amount > range_.max:
        return f"is more than the policy's maximum {range_.max}"
    step = range_.step
    if step is None:
        return None
    if range_.min is None:
        raise _Broken(f"request policy has a step of {step}, but no min")
    if step.nano <= 0:
        raise _not_positive(step)
    if in_milli(range_, fractional=fractional):
        milli = _exact_milli(amount)
        aligned = milli is not None and (milli - range_.min.milli_value()) % step.milli_value() == 0
    else:
        aligned = (amount.value() - range_.min.value()) % step.value() == 0
    return None if aligned else f"is not the policy's minimum {range_.min} plus a multiple of {step}"
