"""Random allocation problems in wire form, small enough to be hard: few devices, shared attributes, several claims and
nodes.

Everything of Kubernetes 1.37 occurs, also what validation refuses and where the reference is known to be wrong (AC-*).
"""

from __future__ import annotations

from random import Random

from devtools.upstream.allocator.problems.claims import CLASSES, claim, device_class, spoil
from devtools.upstream.allocator.problems.mix import FEATURES, Json, Mix
from devtools.upstream.allocator.problems.node_selection import node
from devtools.upstream.allocator.problems.slices import slices
from devtools.upstream.allocator.problems.used import used

__all__ = ["FEATURES", "Json", "problem"]


def problem(random: Random) -> Json:
    """One problem as the protocol of ``virt-dra allocate --jsonl`` has it, without id."""
    mix = Mix.drawn(random)
    published = slices(mix)
    allocated, state = used(mix, published)
    claims = [
        claim(mix, f"claim{i}") for i in range(mix.choice((2, 2, 3)) if mix.has("several_claims", 1.0, 0.1) else 1)
    ]
    if mix.chance(0.003):
        claims.pop()
    if mix.chance(0.04) and claims:
        spoil(mix, claims)
    configs = 32 if mix.has("config", 0.04, 0.0) else 2
    made: Json = {
        "features": {name: on for name, on in mix.features.items() if on or mix.chance(0.8)},
        "node": node(mix),
        "classes": [device_class(mix, name, configs) for name in CLASSES],
        "slices": published,
        "allocated": allocated,
        "claims": claims,
    }
    if state:
        made["allocated_state"] = state
    if all(mix.features.values()):
        del made["features"]  # means the same
    if mix.chance(0.01):
        del made["node"]["metadata"]["labels"]
    return made
