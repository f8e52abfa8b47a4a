"""Whether devices can satisfy each request: selectors, numbers, capacity, taints (K-12.3). Current use is ignored."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

from virt_dra.api.counting import counted, cut_after
from virt_dra.api.go_text import quoted
from virt_dra.api.nearest import LISTED, nearest, nearest_first
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import DeviceTaintRule
from virt_dra.api.tolerations import untolerated
from virt_dra.matching.facts import contradiction, facts_read
from virt_dra.matching.published_slice import SliceDevice
from virt_dra.matching.reading import published_value
from webhooks.lint.finding import LintIssue
from webhooks.lint.inputs import SLICES
from webhooks.lint.inventory import Match, SelectorFault
from webhooks.lint.linted import Linted, NamedClaim, RequestOption
from webhooks.verdict import FieldIssue

SHOWN_TEXT = 200
"""Characters of a selector that a message shows."""


def _matches(linted: Linted) -> Iterator[tuple[NamedClaim, RequestOption, Match]]:
    """The options of all claims that aren't allocated, with their matching devices."""
    for claim in linted.claims:
        for option in claim.options if claim.allocated is None else ():
            match = linted.matching(option)
            if match is not None:
                yield claim, option, match


def _has_devices(linted: Linted, claim: NamedClaim, option: RequestOption) -> bool:
    """Whether some device matches the option, or another alternative, which may be taken in its place."""
    matches = map(linted.matching, claim.options_of(option.request))
    return any(match is not None and match.devices for match in matches)


def selector_error(linted: Linted) -> Iterator[FieldIssue]:
    """Selectors that don't compile, or that fail where the request matches no device (A-8)."""
    for claim, option, match in _matches(linted):
        fault = match.fault
        if fault is None or (fault.device is not None and _has_devices(linted, claim, option)):
            continue
        fault_text = "is not a valid selector" if fault.device is None else f"fails on the device {fault.device}"
        yield LintIssue(
            claim.field,
            f"{_selector(linted, claim, option, fault)} {fault_text}: {_first_line(fault.message)}. "
            f"{_there_is(linted, fault)}Correct it; virt-dra cel tries a selector on devices",
            at=linted.selector_place(claim, option, fault.selector),
        )


_NO_SUCH_KEY: Final = re.compile(r"no such key: ([^.\s]+)")
_NAMED: Final = 1000
"""The most devices of a driver whose names of attributes are gathered."""


def _there_is(linted: Linted, fault: SelectorFault) -> str:
    """What the driver's devices have in place of a key that doesn't exist, by domain, the most similar name first; ""
    at admission, where users may not know the devices."""
    missing = _NO_SUCH_KEY.search(fault.message)
    if missing is None or fault.device is None or linted.settings.at_admission:
        return ""
    driver = fault.device.driver
    by_domain: dict[str, dict[str, str]] = {}
    for published in islice(linted.inputs.inventory.devices_of(driver), _NAMED):
        attributes = published.device.attributes
        for name in (*attributes, *published.device.capacity):
            domain, _, identifier = name.rpartition("/")
            shown = quoted(identifier) if name in attributes else f"{quoted(identifier)} (a capacity)"
            by_domain.setdefault(domain or driver, {}).setdefault(identifier, shown)
    key = missing[1].strip("'\"")
    meant = nearest(key, (name for names in by_domain.values() for name in names))
    domains = sorted(by_domain, key=lambda domain: (meant not in by_domain[domain], domain != driver, domain))
    listings: list[str] = []
    for domain in domains[:LISTED]:
        names = nearest_first(key, sorted(by_domain[domain]))
        shown_names = [by_domain[domain][name] for name in names[:LISTED]] + ["…"] * (len(names) > LISTED)
        listings.append(f"{', '.join(shown_names)} under {quoted(domain)}")
    return f"The driver's devices have {'; '.join(listings)}. " if listings else ""


def selector_fails_on_device(linted: Linted) -> Iterator[FieldIssue]:
    """Selectors that fail on some device, which ends the allocation on every node where that device is evaluated
    (A-8)."""
    for claim, option, match in _matches(linted):
        fault = match.fault
        if fault is not None and fault.device is not None and _has_devices(linted, claim, option):
            yield LintIssue(
                claim.field,
                f"{_selector(linted, claim, option, fault)} fails on the device {fault.device}: "
                f"{_first_line(fault.message)}. {_there_is(linted, fault)}On a node with such a device the claim may "
                "not be allocated at all: check first that the value exists, e.g. with has()",
                at=linted.selector_place(claim, option, fault.selector),
            )


def selector_not_checked(linted: Linted) -> Iterator[FieldIssue]:
    """Selectors that weren't evaluated, or not on all devices, because of a limit of virt-dra."""
    used = {option for use in linted.uses for option in use.options}
    for claim, option, match in _matches(linted):
        unknown_slices = 0 if match.unchecked or option not in used else linted.drivers_matching(option).unknown
        if unknown_slices:
            yield claim.issue(
                f"{option.path}.selectors",
                f"{claim} request {quoted(option.name)}: whether its selectors match devices of further drivers is "
                f"unknown for {counted(unknown_slices, 'ResourceSlice')}, which were not checked yet. "
                "The scheduler will check them; virt-dra cel shows what a selector costs",
            )
        if match.unchecked:
            unknown = f" for {match.unknown} of {match.tried} devices" if match.unknown else ""
            yield claim.issue(
                f"{option.path}.selectors",
                f"{claim} request {quoted(option.name)}: which devices its selectors match was not checked{unknown}: "
                f"{match.unchecked}. The scheduler will check it; virt-dra cel shows what a selector costs",
            )


def _selector(linted: Linted, claim: NamedClaim, option: RequestOption, fault: SelectorFault) -> str:
    where, text = linted.expressions(option)[fault.selector]
    return f"{claim} request {quoted(option.name)}: {where} `{_short(text)}`"


def no_matching_device(linted: Linted) -> Iterator[FieldIssue]:
    """Requests that no device of the cluster matches, with the selector that excludes the last remaining devices."""
    for claim, option, match in _matches(linted):
        if match.devices or match.fault is not None or match.incomplete or _has_alternative(linted, claim, option):
            continue
        expressions = linted.expressions(option)
        total = match.passed[0]
        if not total:
            none = f"{claim} request {quoted(option.name)}: no device is published in this cluster"
            text = f"{none}{_refused_slices(linted)}. Check the DRA drivers"
            yield claim.issue(f"{option.path}.deviceClassName", text)
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
        yield LintIssue(
            claim.field,
            f"{claim} request {quoted(option.name)}: {where} `{_short(text)}` {verdict}{why}{_refused_slices(linted)}. "
            "Loosen the selector, or provide such a device",
            at=linted.selector_place(claim, option, first),
        )


def _refused_slices(linted: Linted) -> str:
    refused = sum(kind == SLICES for kind, _, _ in linted.inputs.refused)
    slices = "a ResourceSlice" if refused == 1 else f"{refused} ResourceSlices"
    return f" ({slices} of the input would be refused, so its devices don't count)" if refused else ""


def _has_alternative(linted: Linted, claim: NamedClaim, option: RequestOption) -> bool:
    """True if another alternative of the same request has devices."""
    others = [other for other in claim.options_of(option.request) if other is not option]
    return any((match := linted.matching(other)) is None or match.devices or match.incomplete for other in others)


COMPARED = 10_000
"""Limit of the devices whose values are compared with a selector."""


def _values(linted: Linted, option: RequestOption, position: int) -> str:
    """The values for which devices fail a selector; "" at admission, where users may not know the devices'
    attributes."""
    if linted.settings.at_admission:
        return ""
    texts = [text for _, text in linted.expressions(option)]
    said = contradiction(texts[position], linted.inputs.inventory.stopped_at(texts, position, COMPARED))
    return f": {said}" if said else ""


def _nearest(linted: Linted, match: Match, text: str) -> str:
    """The devices that come nearest; "" at admission, where users may not know the devices."""
    if linted.settings.at_admission:
        return ""
    facts = ((published, facts_read(text, published.driver, published.device)) for published in match.nearest)
    shown = [f"{published}: {read}" if read else str(published) for published, read in facts]
    return f"; nearest: {'; '.join(shown)}" if shown else ""


def _first_line(text: str) -> str:
    """The first line of an error; the others show the place in the selector."""
    return text.partition("\n")[0]


def _short(text: str) -> str:
    return cut_after(" ".join(text.split()), SHOWN_TEXT)


def not_enough_devices(linted: Linted) -> Iterator[FieldIssue]:
    """Requests for more devices than any node has, including those that aren't local to a node."""
    for claim, option, match in _matches(linted):
        if option.all_devices or option.count == 1 or match.incomplete or match.fault is not None or not match.devices:
            continue
        if _has_alternative(linted, claim, option):
            continue
        if any(device.device.allow_multiple_allocations for device in match.devices):
            continue
        per_node = Counter(device.node for device in match.devices)
        anywhere = per_node.pop("", 0)
        most = max(per_node.values(), default=0) + anywhere
        if option.count > most:
            yield LintIssue(
                claim.field,
                f"{claim} {option.path}.count: {option.count} devices are requested, and no node has more than {most} "
                "that match. Request fewer, or provide more devices on one node",
                at=claim.place(f"{option.path}.count"),
            )


def not_enough_capacity(linted: Linted) -> Iterator[FieldIssue]:
    """Requests for more capacity than any matching device has (A-16)."""
    for claim, option, match in _matches(linted):
        asked = option.asked.capacity.requests if option.asked.capacity else {}
        if not asked or not match.devices or match.incomplete or _has_alternative(linted, claim, option):
            continue
        for name, amount in asked.items():
            offered = [capacity for device in match.devices if (capacity := _capacity(device, name)) is not None]
            most = max(offered, default=None)
            if most is None or amount > most:
                largest = f"the most that a matching device has is {most}"
                has = "no matching device has this capacity" if most is None else largest
                path = f"{option.path}.capacity.requests[{name}]"
                text = f"{claim} {path}: {amount} is requested, and {has}. Request less, or provide such a device"
                yield claim.issue(path, text)


def _capacity(published: SliceDevice, name: str) -> Quantity | None:
    domain, _, identifier = name.rpartition("/")
    driver = published.driver
    capacity = published_value(published.device.capacity, driver, domain or driver, identifier)
    return None if capacity is None else capacity.value


def devices_tainted(linted: Linted) -> Iterator[FieldIssue]:
    """Requests of which every matching device has a taint that they don't tolerate."""
    for claim, option, match in _matches(linted):
        if not match.devices or match.incomplete or option.admin_access:
            continue
        if not linted.inputs.model.of(DeviceTaintRule) and any(not device.device.taints for device in match.devices):
            continue
        tolerations = option.asked.tolerations
        first = [next(untolerated(tolerations, linted.inputs.taints(device)), None) for device in match.devices]
        taints = [taint for taint in first if taint is not None]
        if len(taints) < len(first) or _has_alternative(linted, claim, option):
            continue
        texts = (f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}" for taint in taints[:3])
        named = ", ".join(dict.fromkeys(texts))
        yield claim.issue(
            f"{option.path}.tolerations",
            f"{claim} request {quoted(option.name)}: every matching device is tainted ({named}). "
            f"Add a toleration at {option.path}.tolerations, or wait until the taint is removed",
        )
