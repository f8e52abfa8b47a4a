"""All allocated claims with their evictions, kept up to date as slices, rules and claims change (C-11.1, C-11.4). A
change is answered with the claims whose eviction is another one now, without a pass over all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.model.evicting.causes import (
    NO_EXECUTE,
    CausedTaint,
    Eviction,
    TaintedDevice,
    claim_eviction,
    device_of,
    rule_selects,
)
from virt_dra.model.evicting.published import PublishedTaints
from virt_dra.model.evicting.rules import EvictingRules

ClaimKey = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True)
class AllocatedClaim:
    """A claim with its eviction."""

    claim: ResourceClaim
    eviction: Eviction | None


class AllocatedTaints:
    """All allocated claims with their evictions."""

    def __init__(self) -> None:
        self.published = PublishedTaints()
        self._rules = EvictingRules()
        self._claims: dict[ClaimKey, AllocatedClaim] = {}
        self._users: dict[tuple[str, ...], dict[ClaimKey, None]] = {}
        """The claims that have a device, by driver, by driver and pool, and by all three."""

    def get(self, namespace: str, name: str) -> AllocatedClaim | None:
        return self._claims.get((namespace, name))

    def change_claim(
        self, old: ResourceClaim | None, new: ResourceClaim | None
    ) -> tuple[Eviction | None, Eviction | None]:
        """Replaces a claim (None: absent) by another state of it. Returns its eviction before and now. An allocation
        never changes in place (C-1.10), so it is only evaluated when it is new."""
        replaced = self._forget(old) if old is not None else None
        before = replaced.eviction if replaced is not None else None
        if new is None or new.status.allocation is None:
            return before, None
        kept = replaced is not None and replaced.claim.status.allocation == new.status.allocation
        now = before if kept else claim_eviction(new.status.allocation, self._taints_of)
        key = _key(new)
        self._claims[key] = AllocatedClaim(new, now)
        for place in _places(new):
            self._users.setdefault(place, {})[key] = None
        return before, now

    def _forget(self, claim: ResourceClaim) -> AllocatedClaim | None:
        key = _key(claim)
        removed = self._claims.pop(key, None)
        if removed is None:
            return None
        for place in _places(removed.claim):
            users = self._users[place]
            users.pop(key, None)
            if not users:
                del self._users[place]
        return removed

    def change_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> list[ResourceClaim]:
        """Replaces a slice. Returns the claims whose eviction changed, by namespace and name."""
        changed = self.published.change(old, new)
        return self._evaluated({key for device in changed for key in self._users.get(device, ())})

    def change_rule(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> list[ResourceClaim]:
        """Replaces a rule. Returns the claims whose eviction changed, by namespace and name."""
        affected: set[ClaimKey] = set()
        if old is not None:
            self._rules.remove(old)
            affected.update(self._selected_by(old) if old.spec.taint.effect == NO_EXECUTE else ())
        if new is not None:
            self._rules.add(new)
            affected.update(self._selected_by(new) if new.spec.taint.effect == NO_EXECUTE else ())
        return self._evaluated(affected)

    def would_evict(self, rule: DeviceTaintRule) -> Iterator[AllocatedClaim]:
        """The claims whose consumers a rule alone would evict if its effect were NoExecute, with their evictions
        (C-11.8)."""
        strict = rule.with_(spec=rule.spec.with_(taint=rule.spec.taint.with_(effect=NO_EXECUTE)))
        alone = EvictingRules()
        alone.add(strict)
        for key in sorted(self._selected_by(rule)):
            claim = self._claims[key].claim
            eviction = claim_eviction(claim.status.allocation, alone.taints_of)
            if eviction is not None:
                yield AllocatedClaim(claim, eviction)

    def allocated_devices(self, rule: DeviceTaintRule) -> int:
        """The number of allocation results that a rule selects; a device that several claims share counts for each."""
        claims = (self._claims[key].claim for key in self._selected_by(rule))
        return sum(rule_selects(rule, device) for claim in claims for device in map(device_of, claim.results))

    def _selected_by(self, rule: DeviceTaintRule) -> Iterable[ClaimKey]:
        """A superset of the claims that have a device which the rule selects."""
        selector = rule.spec.device_selector
        if selector is None:
            return ()
        place: tuple[str, ...] = ()
        for part in (selector.driver, selector.pool, selector.device):
            if part is None:
                break
            place = (*place, part)
        return tuple(self._users.get(place, ()) if place else self._claims)

    def _evaluated(self, keys: Iterable[ClaimKey]) -> list[ResourceClaim]:
        changed = []
        for key in sorted(keys):
            stored = self._claims[key]
            eviction = claim_eviction(stored.claim.status.allocation, self._taints_of)
            if eviction != stored.eviction:
                self._claims[key] = AllocatedClaim(stored.claim, eviction)
                changed.append(stored.claim)
        return changed

    def _taints_of(self, device: TaintedDevice) -> Iterable[CausedTaint]:
        return chain(self._rules.taints_of(device), self.published.taints_of(device))


def _key(claim: ResourceClaim) -> ClaimKey:
    return claim.namespace, claim.name


def _places(claim: ResourceClaim) -> set[tuple[str, ...]]:
    return {device_of(result)[:length] for result in claim.results for length in (1, 2, 3)}
