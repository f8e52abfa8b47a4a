"""Symmetry breaking by interchangeable values (Freuder, "Eliminating interchangeable values in constraint satisfaction
problems", 1991).

Two devices are interchangeable for a request if every filter and check has the same symmetry key (model.Check) for
both. Requests with the same class, selectors, constraints and so on form one *request group*; a device is tested once
per group.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from virt_dra.allocator.errors import Aborted, FatalError
from virt_dra.allocator.model import PoolDevice, Request, Slots, SymmetryKey, Upcoming
from virt_dra.allocator.pruning.reportable import Reportable
from virt_dra.allocator.pruning_port import Problem


class Broken(NamedTuple):
    """The key of a device that is an error to a request, for example because a selector fails on it."""

    device: PoolDevice


class Interchangeability:
    """Symmetry keys of all devices, computed when first asked for. They don't depend on what is chosen."""

    def __init__(self, problem: Problem, reportable: Reportable, spend: Callable[[int], None]) -> None:
        self._problem = problem
        self._reportable = reportable
        self._spend = spend
        self._groups: dict[Request, int] = {}
        self._group_numbers: dict[Hashable, int] = {}
        self._keys_by_group: list[dict[PoolDevice, SymmetryKey]] = []
        self._keys: dict[Request, dict[PoolDevice, SymmetryKey]] = {}
        self._upcoming: dict[int, Upcoming] = {}
        self._positions: dict[Request, dict[PoolDevice, int]] = {}
        self._broken: dict[int, bool] = {}

    def group(self, request: Request) -> int:
        """The number of the request's group."""
        group = self._groups.get(request)
        if group is None:
            group = self._groups[request] = self._group_numbers.setdefault(
                self._identity(request), len(self._group_numbers)
            )
            if group == len(self._keys_by_group):
                self._keys_by_group.append({})
        return group

    def _identity(self, request: Request) -> Hashable:
        checks = self._problem.checks[request.claim_index]
        constraints = tuple(number for number, check in enumerate(checks) if check.constrains(request))
        return (
            id(request.device_class),
            request.selectors,
            request.mode,
            request.admin_access,
            request.tolerations,
            tuple(request.derived.items()),
            tuple((name, quantity.spelling) for name, quantity in request.capacity.items()),
            (request.claim_index, constraints) if constraints or request.admin_access else None,
            request if request in self._reportable else None,
        )

    def key(self, request: Request, device: PoolDevice) -> SymmetryKey:
        """Equal for devices that are interchangeable for the request; None for a device that it can never have."""
        keys = self._keys.get(request)
        if keys is None:
            keys = self._keys[request] = self._keys_by_group[self.group(request)]
        try:
            return keys[device]
        except KeyError:
            key = keys[device] = self._compute(request, device)
            return key

    def _compute(self, request: Request, device: PoolDevice) -> SymmetryKey:
        self._spend(1)
        problem, reportable = self._problem, request in self._reportable
        keys: list[SymmetryKey] = []
        try:
            if problem.availability.symmetry_key(request, device) is None:
                return None
            if not all(filter_.admits(request, device) for filter_ in problem.filters):
                return None
            for check in problem.checks[request.claim_index]:
                key = check.symmetry_key(request, device)
                if key is None and not reportable:
                    return None
                keys.append(key)
        except Aborted:
            raise
        except FatalError:
            return Broken(device)
        if reportable:
            # A device that is taken already is refused before the constraint is asked, which is another outcome.
            before = self._reportable[request]
            return device if before is None else (device in before, *keys)
        return tuple(keys)

    def reportable(self, request: Request) -> bool:
        """True if a refusal of the request may have to be reported."""
        return request in self._reportable

    def broken(self, entry: int) -> bool:
        """True if some device is an error to some alternative of the entry."""
        return any(self._any_broken(slots) for slots in self._problem.entries[entry].plan.alternatives)

    def _any_broken(self, slots: Slots) -> bool:
        group = self.group(slots.request)
        broken = self._broken.get(group)
        if broken is None:
            devices = self._problem.devices(slots)
            broken = self._broken[group] = any(
                isinstance(self.key(slots.request, device), Broken) for device in devices
            )
        return broken

    def upcoming(self, entry: int) -> Upcoming:
        """All requests from an entry on, and the symmetry of devices to all of them together."""
        upcoming = self._upcoming.get(entry)
        if upcoming is None:
            requests = tuple(
                slots.request for later in self._problem.entries[entry:] for slots in later.plan.alternatives
            )
            representatives = {self.group(request): request for request in requests}.values()
            keys: dict[PoolDevice, SymmetryKey] = {}

            def symmetry(device: PoolDevice) -> SymmetryKey:
                if device not in keys:
                    key = tuple([self.key(request, device) for request in representatives])
                    keys[device] = None if all(part is None for part in key) else key
                return keys[device]

            upcoming = self._upcoming[entry] = Upcoming(requests, symmetry)
        return upcoming

    def upcoming_within(self, entry: int, request: Request, start: int) -> Upcoming:
        """The open slots of a request of the entry, whose candidates before index ``start`` are used up, and all
        entries after it."""
        rest = self.upcoming(entry + 1)
        positions = self._positions.get(request)
        if positions is None:
            positions = self._positions[request] = {
                device: i for i, device in enumerate(self._problem.candidates(request))
            }

        def symmetry(device: PoolDevice) -> SymmetryKey:
            now = self.key(request, device) if positions.get(device, -1) >= start else None
            later = rest.symmetry(device)
            return None if now is None and later is None else (now, later)

        return Upcoming((request, *rest.requests), symmetry)
