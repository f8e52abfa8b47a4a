"""How a random problem is mixed: a few concepts are strong in it, so that they meet, and the others rare, so that it
isn't mere noise."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

Json = dict[str, Any]
T = TypeVar("T")

CONCEPTS = (
    "admin_access",
    "all_mode",
    "binding_conditions",
    "capacity_policies",
    "capacity_requests",
    "compatibility_groups",
    "config",
    "counters",
    "derived_attributes",
    "distinct_attribute",
    "list_attributes",
    "many_devices",
    "match_attribute",
    "node_operations",
    "node_selection",
    "pool_problems",
    "prioritized_list",
    "selectors",
    "shares",
    "several_claims",
    "taints",
    "used",
)

DRIVERS = ("a.example.com", "b.example.com")
BASE = (
    "AdminAccess",
    "ConsumableCapacity",
    "DeviceBindingAndStatus",
    "DeviceTaints",
    "FractionalCapacityRange",
    "PartitionableDevices",
    "PrioritizedList",
)
"""The gates that are on in Kubernetes 1.37."""
ALPHA = {
    "CompatibilityGroups": "compatibility_groups",
    "DerivedAttributes": "derived_attributes",
    "ListTypeAttributes": "list_attributes",
    "OptionalNodeOperations": "node_operations",
}
"""The others, and the concept that needs each."""
FEATURES = tuple(sorted((*BASE, *ALPHA)))

_WITH = {
    "compatibility_groups": ("counters",),
    "capacity_policies": ("shares", "capacity_requests"),
    "capacity_requests": ("shares",),
    "derived_attributes": ("match_attribute",),
    "list_attributes": ("match_attribute",),
}
"""What a concept needs to mean anything."""


class Mix(Random):
    """The random source of one problem, and which concepts are strong in it."""

    strong: frozenset[str]
    features: dict[str, bool]

    @classmethod
    def drawn(cls, random: Random) -> Mix:
        mix = cls(random.getrandbits(64))
        chosen = mix.sample(CONCEPTS, mix.choice((1, 2, 2, 3, 3, 4)))
        if mix.chance(0.8) and "many_devices" in chosen:
            chosen.remove("many_devices")  # takes the reference long
        mix.strong = frozenset(chosen) | {other for concept in chosen for other in _WITH.get(concept, ())}
        mix.features = {name: not mix.chance(0.03) for name in BASE}
        for name, concept in ALPHA.items():
            mix.features[name] = mix.chance(0.9 if concept in mix.strong else 0.4)
        return mix

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def has(self, concept: str, strong: float, weak: float) -> bool:
        """Whether to use the concept here, with either probability."""
        if concept not in CONCEPTS:
            raise KeyError(concept)
        return self.chance(strong if concept in self.strong else weak)

    def pick(self, weighted: dict[T, float]) -> T:
        """One of the keys, by weight."""
        return self.choices(list(weighted), list(weighted.values()))[0]

    def some(self, from_: Sequence[T], most: int) -> list[T]:
        """One to ``most`` different members in random order."""
        return self.sample(from_, self.randint(1, min(most, len(from_))))
