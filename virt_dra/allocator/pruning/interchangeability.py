"""Which devices are alike to which requests: what every shortcut of the search rests on.

Requests that look at devices with the same eyes share a *look*; everything about a device is asked once per look.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from virt_dra.allocator.errors import Aborted, FatalError
from virt_dra.allocator.model import Availability, Check, Device, Filter, Kind, Request, RequestPlan, Slots, Upcoming


class Entry(NamedTuple):
    """One entry of a claim's requests, in the order of the search."""

    claim: int
    plan: RequestPlan
    number: int
    """Among the requests of its claim."""


class Kinds:
    """Lives as long as one attempt. Nothing here depends on what is chosen."""

    def __init__(
        self,
        entries: Sequence[Entry],
        candidates: Callable[[Request], Sequence[Device]],
        availability: Availability,
        filters: Sequence[Filter],
        checks: Sequence[Sequence[Check]],
        reports: dict[Request, frozenset[Device] | None],
        spend: Callable[[int], None],
    ) -> None:
        self._entries = entries
        self._candidates = candidates
        self._availability = availability
        self._filters = filters
        self._checks = checks
        self._reports = reports
        self._spend = spend
        self._looks: dict[Request, int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._kinds: list[dict[Device, Kind]] = []
        self._kinds_of: dict[Request, dict[Device, Kind]] = {}
        self._upcoming: dict[int, Upcoming] = {}
        self._positions: dict[Request, dict[Device, int]] = {}
        self._broken: dict[int, bool] = {}

    def look(self, request: Request) -> int:
        """The number of the request's look."""
        known = self._looks.get(request)
        if known is None:
            key = self._key(request)
            known = self._looks[request] = self._numbers.setdefault(key, len(self._numbers))
            if known == len(self._kinds):
                self._kinds.append({})
        return known

    def _key(self, request: Request) -> Hashable:
        constraints = tuple(number for number, check in enumerate(self._checks[request.claim_index]) if check.constrains(request))
        return (
            id(request.device_class),
            request.selectors,
            request.mode,
            request.admin_access,
            request.tolerations,
            tuple(request.derived.items()),
            tuple((name, quantity.spelling) for name, quantity in request.capacity.items()),
            (request.claim_index, constraints) if constraints or request.admin_access else None,
            request if request in self._reports else None,
        )

    def of(self, request: Request, device: Device) -> Kind:
        """What tells devices apart for a request, whatever else is chosen; None if it can never have the device."""
        kinds = self._kinds_of.get(request)
        if kinds is None:
            kinds = self._kinds_of[request] = self._kinds[self.look(request)]
        try:
            return kinds[device]
        except KeyError:
            kind = kinds[device] = self._of(request, device)
            return kind

    def _of(self, request: Request, device: Device) -> Kind:
        self._spend(1)
        reported = request in self._reports
        kinds: list[Kind] = []
        try:
            if self._availability.kind(request, device) is None or not all(each.admits(request, device) for each in self._filters):
                return None
            for check in self._checks[request.claim_index]:
                kind = check.kind(request, device)
                if kind is None and not reported:
                    return None
                kinds.append(kind)
        except Aborted:
            raise
        except FatalError:
            return Broken(device)
        if reported:  # while one of these is taken, the constraint isn't asked: that is another outcome
            before = self._reports[request]
            return device if before is None else (device in before, *kinds)
        return tuple(kinds)

    def devices(self, slots: Slots) -> Sequence[Device]:
        """All that the request can get."""
        return self._candidates(slots.request) if slots.fixed is None else slots.fixed

    def reported(self, request: Request) -> bool:
        """Whether a refusal of the request may have to be reported (reports.py)."""
        return request in self._reports

    def broken(self, entry: int) -> bool:
        """Whether some device is an error to some alternative."""
        return any(self._some_broken(slots) for slots in self._entries[entry].plan.alternatives)

    def _some_broken(self, slots: Slots) -> bool:
        look = self.look(slots.request)
        known = self._broken.get(look)
        if known is None:
            known = self._broken[look] = any(isinstance(self.of(slots.request, device), Broken) for device in self.devices(slots))
        return known

    def upcoming(self, entry: int) -> Upcoming:
        """Everything from the beginning of an entry on."""
        known = self._upcoming.get(entry)
        if known is None:
            requests = tuple(slots.request for each in self._entries[entry:] for slots in each.plan.alternatives)
            different = {self.look(request): request for request in requests}
            kinds: dict[Device, Kind] = {}

            def kind(device: Device) -> Kind:
                if device not in kinds:
                    each = tuple([self.of(request, device) for request in different.values()])
                    kinds[device] = None if all(one is None for one in each) else each
                return kinds[device]

            known = self._upcoming[entry] = Upcoming(requests, kind)
        return known

    def upcoming_within(self, entry: int, request: Request, start: int) -> Upcoming:
        """The open slots of a request, for which only devices from ``start`` on count, and everything behind it."""
        rest = self.upcoming(entry + 1)
        positions = self._positions_of(request)

        def kind(device: Device) -> Kind:
            now = self.of(request, device) if positions.get(device, -1) >= start else None
            later = rest.kind(device)
            return None if now is None and later is None else (now, later)

        return Upcoming((request, *rest.requests), kind)

    def _positions_of(self, request: Request) -> dict[Device, int]:
        known = self._positions.get(request)
        if known is None:
            known = self._positions[request] = {device: i for i, device in enumerate(self._candidates(request))}
        return known


class Broken(NamedTuple):
    """The kind of a device that is an error to a request (a failing selector)."""

    device: Device
