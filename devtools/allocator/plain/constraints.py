"""matchAttribute and distinctAttribute (A-15), also over derived attributes (A-16): values kept per device, compared
anew each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from devtools.allocator.plain.errors import Fatal
from devtools.allocator.plain.facts import Candidate, Facts
from devtools.allocator.plain.requests import Wanted
from virt_dra.api.resource_v1 import DeviceAttribute, ResourceClaim
from virt_dra.cel import CompileError, EvaluationError, compile_derived_attribute, device_input

Values = tuple[str, frozenset[object]]
"""Type and values. ("", nothing): a value of no known type, which the reference takes for the first one (AC-18)."""
UNKNOWN: Values = ("", frozenset())


@dataclass(eq=False)
class Kind:
    """One of the two."""

    facts: Facts
    name: str
    requests: tuple[str, ...]
    distinct: bool
    values: list[Values] = field(default_factory=list)

    def add(self, wanted: Wanted, candidate: Candidate) -> Callable[[], None] | None:
        """None: refused."""
        if not wanted.covered(self.requests):
            return _nothing
        attribute = self._attribute(wanted, candidate)
        if attribute is None:
            return None
        values = _values(attribute, lists=self.facts.on("ListTypeAttributes"))
        if values is None:
            if self.values or self.facts.on("ListTypeAttributes") or self.facts.fixed("AC-18"):
                return None
            values = UNKNOWN
        if not (self._all_differ(values) if self.distinct else self._all_share(values)):
            return None
        self.values.append(values)
        return self._remove

    def _remove(self) -> None:
        self.values.pop()

    def _all_differ(self, values: Values) -> bool:
        return all(kind != values[0] or not (present & values[1]) for kind, present in self.values)

    def _all_share(self, values: Values) -> bool:
        if not self.values:
            return True
        common = values[1]
        for kind, present in self.values:
            common = common & present if kind == values[0] else frozenset()
        return bool(common)

    def _attribute(self, wanted: Wanted, candidate: Candidate) -> DeviceAttribute | None:
        driver, published = candidate.slice.spec.driver, candidate.device.attributes
        derived = {derived.name: derived.expression for derived in wanted.of.derived_attributes}
        if self.name in derived:
            try:
                return compile_derived_attribute(derived[self.name]).evaluate(device_input(driver, candidate.device))
            except CompileError as error:
                raise Fatal(f"compile derived attribute {self.name} failed: {error}") from None
            except EvaluationError as error:
                raise Fatal(
                    f"evaluate derived attribute {self.name} on device {candidate.shown} failed: {error}"
                ) from None
        domain, slash, identifier = self.name.partition("/")
        if self.name not in published and slash and domain == driver:
            return published.get(identifier)
        return published.get(self.name)


@dataclass(frozen=True)
class Constraint:
    kinds: tuple[Kind, ...]


def constraints(facts: Facts, claim: ResourceClaim) -> list[Constraint]:
    """With both kinds in one entry, matchAttribute alone counts where AC-5 isn't corrected."""
    constraints_ = []
    for constraint in claim.spec.devices.constraints:
        kinds = [
            Kind(facts, name, constraint.requests, distinct)
            for name, distinct in ((constraint.match_attribute, False), (constraint.distinct_attribute, True))
            if name is not None
        ]
        constraints_.append(Constraint(tuple(kinds if facts.fixed("AC-5") else kinds[:1])))
    return constraints_


def _nothing() -> None:
    """What a constraint that doesn't cover a request has to undo."""


def _values(attribute: DeviceAttribute, *, lists: bool) -> Values | None:
    """A-15.6, and in scalar mode A-15.4's order."""
    many = (
        ("int", attribute.ints),
        ("bool", attribute.bools),
        ("string", attribute.strings),
        ("version", attribute.versions),
    )
    for kind, values in many if lists else ():
        if values:
            return kind, frozenset(values)
    single: tuple[tuple[str, object], ...] = (
        ("int", attribute.int_value),
        ("bool", attribute.bool_value),
        ("string", attribute.string),
        ("version", attribute.version),
    )
    return next(((kind, frozenset((value,))) for kind, value in single if value is not None), None)
