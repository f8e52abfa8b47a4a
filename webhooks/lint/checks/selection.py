"""Whether any device could be chosen: selectors, numbers, capacity, taints (K-12.3). What is in use at the moment isn't looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from virt_dra.api.go_text import quoted
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import DeviceTaint
from virt_dra.api.tolerations import tolerates
from webhooks.lint.inputs import SLICES
from webhooks.lint.inventory import Match
from webhooks.lint.linted import Linted, NamedClaim, RequestOption
from webhooks.selectors.evaluating import SelectorFault
from webhooks.selectors.slice_device import SliceDevice, contradiction, values_read
from webhooks.verdict import FieldIssue

SHOWN_TEXT = 200
"""Characters of a selector that a message shows."""


def _judged(linted: Linted) -> Iterator[tuple[NamedClaim, RequestOption, Match]]:
    """Every option of a claim that is yet to be allocated."""
    for claim in linted.claims:
        for option in claim.options if claim.allocated is None else ():
            match = linted.matching(option)
            if match is not None:
                yield claim, option, match


def selector_error(linted: Linted) -> Iterator[FieldIssue]:
    """A selector that is wrong as a text, or that fails and so leaves no device (A-8)."""
    for claim, option, match in _judged(linted):
        fault = match.fault
        if fault is None or (fault.device is not None and match.devices):
            continue
        said = "is no valid selector" if fault.device is None else f"fails on the device {fault.device}"
        yield FieldIssue(
            claim.field,
            f"{_selector(linted, claim, option, fault)} {said}: {_first_line(fault.message)}. "
            "Correct it; virt-dra cel tries a selector on devices",
        )


def selector_fails_on_device(linted: Linted) -> Iterator[FieldIssue]:
    """It ends the allocation on every node whose devices are tried up to this one, whatever else would fit (A-8)."""
    for claim, option, match in _judged(linted):
        fault = match.fault
        if fault is not None and fault.device is not None and match.devices:
            yield FieldIssue(
                claim.field,
                f"{_selector(linted, claim, option, fault)} fails on the device {fault.device}: {_first_line(fault.message)}. "
                "On a node with such a device the claim may not be allocated at all: ask first whether the value is there, e.g. with has()",
            )


def selector_not_checked(linted: Linted) -> Iterator[FieldIssue]:
    """Selectors that nothing is known of, because of a limit of virt-dra's own: says nothing against the VM."""
    for claim, option, match in _judged(linted):
        if match.unchecked:
            yield FieldIssue(
                claim.field,
                f"{claim} request {quoted(option.name)}: which devices its selectors match was not checked: {match.unchecked}. "
                "The scheduler will check it; virt-dra cel shows what a selector costs",
            )


def _selector(linted: Linted, claim: NamedClaim, option: RequestOption, fault: SelectorFault) -> str:
    where, text = linted.expressions(option)[fault.selector]
    return f"{claim} request {quoted(option.name)}: {where} `{_short(text)}`"


def no_matching_device(linted: Linted) -> Iterator[FieldIssue]:
    for claim, option, match in _judged(linted):
        if match.devices or match.fault is not None or match.cut or _has_other_way(linted, claim, option):
            continue
        expressions = linted.expressions(option)
        total = match.passed[0]
        if not total:
            none = f"{claim} request {quoted(option.name)}: no device is published in this cluster"
            yield FieldIssue(claim.field, f"{none}{_refused_slices(linted)}. Check the DRA drivers")
            continue
        first = next(depth for depth, left in enumerate(match.passed) if not left) - 1
        where, text = expressions[first]
        left = match.passed[first]
        if total == 1:
            verdict = "does not match the only device"
        elif left == total:
            verdict = f"matches none of the {total} devices"
        else:
            rest = "does not match the one" if left == 1 else f"matches none of the {left}"
            verdict = f"{rest} that earlier selectors leave of {total} devices"
        why = _values(linted, option, first) or _nearest(linted, match, text)
        yield FieldIssue(
            claim.field,
            f"{claim} request {quoted(option.name)}: {where} `{_short(text)}` {verdict}{why}{_refused_slices(linted)}. "
            "Loosen the selector, or provide such a device",
        )


def _refused_slices(linted: Linted) -> str:
    refused = sum(kind == SLICES for kind, _, _ in linted.inputs.refused)
    if not refused:
        return ""
    return (
        f" ({'a ResourceSlice' if refused == 1 else f'{refused} ResourceSlices'} of the input would be refused, so its devices don't count)"
    )


def _has_other_way(linted: Linted, claim: NamedClaim, option: RequestOption) -> bool:
    """Whether another alternative of the same request has devices: then this one is only not chosen."""
    others = [other for other in claim.options_of(option.request) if other is not option]
    return any((match := linted.matching(other)) is None or match.devices or match.cut for other in others)


COMPARED = 10_000
"""Devices whose values are compared with what a selector wants."""


def _values(linted: Linted, option: RequestOption, position: int) -> str:
    """Not at admission: who may create a VM need not know the devices' attributes."""
    if linted.settings.at_admission:
        return ""
    texts = [text for _, text in linted.expressions(option)]
    said = contradiction(texts[position], linted.inputs.inventory.stopped_at(texts, position, COMPARED))
    return f": {said}" if said else ""


def _nearest(linted: Linted, match: Match, text: str) -> str:
    """Not at admission: who may create a VM need not know what devices are published, nor their attributes."""
    if linted.settings.at_admission:
        return ""
    told = [f"{each!s}" + (f" has {values}" if (values := values_read(text, each)) else "") for each in match.nearest]
    return f"; nearest: {'; '.join(told)}" if told else ""


def _first_line(text: str) -> str:
    """CEL's errors show the place below."""
    return text.partition("\n")[0]


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= SHOWN_TEXT else f"{flat[:SHOWN_TEXT]}…"


def not_enough_devices(linted: Linted) -> Iterator[FieldIssue]:
    """More devices than any one node, and the devices of no particular node, have together."""
    for claim, option, match in _judged(linted):
        if (
            option.all_devices
            or option.count == 1
            or match.cut
            or match.fault is not None
            or not match.devices
            or _has_other_way(linted, claim, option)
        ):
            continue
        if any(device.device.allow_multiple_allocations for device in match.devices):
            continue
        per_node = Counter(device.node for device in match.devices)
        anywhere = per_node.pop("", 0)
        most = max(per_node.values(), default=0) + anywhere
        if option.count > most:
            yield FieldIssue(
                claim.field,
                f"{claim} {option.path}.count: {option.count} devices are asked for, and no node has more than {most} that match. "
                "Ask for fewer, or provide more devices on one node",
            )


def not_enough_capacity(linted: Linted) -> Iterator[FieldIssue]:
    """A request for capacity (A-16) that no device that matches has, even when nobody uses it."""
    for claim, option, match in _judged(linted):
        asked = option.asked.capacity.requests if option.asked.capacity else {}
        if not asked or not match.devices or match.cut or _has_other_way(linted, claim, option):
            continue
        for name, amount in asked.items():
            offered = [capacity for device in match.devices if (capacity := _capacity(device, name)) is not None]
            most = max(offered, default=None)
            if most is None or amount > most:
                has = (
                    f"the most that a device that matches has is {most}" if most is not None else "no device that matches has this capacity"
                )
                yield FieldIssue(
                    claim.field,
                    f"{claim} {option.path}.capacity.requests[{name}]: {amount} is asked for, and {has}. "
                    "Ask for less, or provide such a device",
                )


def _capacity(published: SliceDevice, name: str) -> Quantity | None:
    bare = name.removeprefix(f"{published.driver}/")
    found = (
        published.device.capacity.get(name)
        or published.device.capacity.get(bare)
        or published.device.capacity.get(f"{published.driver}/{bare}")
    )
    return found.value if found is not None else None


def devices_tainted(linted: Linted) -> Iterator[FieldIssue]:
    """Every device that matches has a taint that keeps new claims away and that the request doesn't tolerate."""
    for claim, option, match in _judged(linted):
        if not match.devices or match.cut or option.admin_access:
            continue
        if not linted.inputs.taint_rules and any(not device.device.taints for device in match.devices):
            continue
        in_the_way = [_untolerated(linted, device, option) for device in match.devices]
        taints = [taint for taint in in_the_way if taint is not None]
        if len(taints) < len(in_the_way) or _has_other_way(linted, claim, option):
            continue
        named = ", ".join(dict.fromkeys(f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}" for taint in taints[:3]))
        yield FieldIssue(
            claim.field,
            f"{claim} request {quoted(option.name)}: every device that matches is tainted ({named}). "
            f"Add a toleration at {option.path}.tolerations, or wait until the taint is gone",
        )


def _untolerated(linted: Linted, published: SliceDevice, option: RequestOption) -> DeviceTaint | None:
    for taint in linted.inputs.taints(published):
        if taint.effect in ("NoSchedule", "NoExecute") and not any(tolerates(each, taint) for each in option.tolerations):
            return taint
    return None
