"""A selector engine for tests: just enough of CEL's texts, evaluated without virt_dra.cel, so that allocator tests
stand alone."""

from __future__ import annotations

import re

from virt_dra.allocator import Interrupt
from virt_dra.allocator.features.selectors import SelectorError
from virt_dra.allocator.model import AttributeName, PoolDevice

_DRIVER = re.compile(r'device\.driver == "([^"]*)"')
_ATTRIBUTE = re.compile(r'device\.attributes\["([^"]*)"\]\.(\w+) == ("[^"]*"|\d+|true|false)')


class Toy:
    """Terms joined by ``&&``: ``true``, ``false``, ``device.driver == "…"``, ``device.attributes["…"].name ==
    value``."""

    evaluations = 0

    def __init__(self, expression: str) -> None:
        self._terms = [term.strip() for term in expression.split("&&")]
        for term in self._terms:
            if term not in ("true", "false") and not _DRIVER.fullmatch(term) and not _ATTRIBUTE.fullmatch(term):
                raise SelectorError(f"compilation failed: {term}", compile=True)

    @property
    def reads(self) -> None:
        """On anything: these selectors are never taken to be alike."""

    def matches(self, device: PoolDevice, interrupt: Interrupt | None = None) -> bool:
        Toy.evaluations += 1
        return all(self._term(term, device) for term in self._terms)

    @staticmethod
    def _term(term: str, device: PoolDevice) -> bool:
        if term in ("true", "false"):
            return term == "true"
        driver = _DRIVER.fullmatch(term)
        if driver:
            return device.id.driver == driver[1]
        attribute = _ATTRIBUTE.fullmatch(term)
        if attribute is None:
            raise AssertionError(term)
        found = AttributeName(f"{attribute[1]}/{attribute[2]}").find(device)
        if found is None:
            raise SelectorError(f"no such key: {attribute[2]}", compile=False)
        value = attribute[3]
        if value.startswith('"'):
            return found.string == value[1:-1]
        if value in ("true", "false"):
            return found.bool_value is (value == "true")
        return found.int_value == int(value)
