"""The DeviceTaintRules that evict, found by device (C-3.8, C-11.1)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from virt_dra.api.resource_v1 import DeviceTaintRule
from virt_dra.model.evicting.causes import NO_EXECUTE, CausedTaint, TaintedDevice, rule_cause

_Selector = tuple[str | None, str | None, str | None]


class EvictingRules:
    """Rules with effect NoExecute by what they select, so that devices are looked up."""

    def __init__(self) -> None:
        self._by_selector: dict[_Selector, dict[str, DeviceTaintRule]] = {}

    def add(self, rule: DeviceTaintRule) -> None:
        """Add a rule, or another state of it with the same selector; one that doesn't evict is ignored."""
        selector = _selector(rule)
        if selector is not None:
            self._by_selector.setdefault(selector, {})[rule.name] = rule

    def remove(self, rule: DeviceTaintRule) -> None:
        selector = _selector(rule)
        if selector is not None:
            rules = self._by_selector.get(selector, {})
            rules.pop(rule.name, None)
            if not rules:
                self._by_selector.pop(selector, None)

    def taints_of(self, device: TaintedDevice) -> Iterator[CausedTaint]:
        """The rules that select a device, published or not."""
        if self._by_selector:
            driver, pool, name = device
            for selector in product((None, driver), (None, pool), (None, name)):
                for rule in self._by_selector.get(selector, {}).values():
                    yield rule_cause(rule), rule.spec.taint


def _selector(rule: DeviceTaintRule) -> _Selector | None:
    given = rule.spec.device_selector
    if given is None or rule.spec.taint.effect != NO_EXECUTE:
        return None
    return given.driver, given.pool, given.device
