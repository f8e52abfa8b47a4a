"""The policies by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from virt_dra.scheduling.policies.aligned import Aligned
from virt_dra.scheduling.policies.by_card import FirstFit, LeastWaste, Pack, Quiet, Random, Spread
from virt_dra.scheduling.policies.fragmentation import LeastFragmentation, TypicalWorkload
from virt_dra.scheduling.policies.policy import Policy

_BY_NAME: Final[dict[str, type[Policy]]] = {
    policy.name: policy for policy in (FirstFit, Pack, Spread, Aligned, Quiet, LeastWaste, LeastFragmentation, Random)
}

POLICIES: Final[dict[str, str]] = {name: policy.summary for name, policy in _BY_NAME.items()}
"""Name -> one line about the policy, in the order in which they are listed."""


def policy_named(name: str, workload: Callable[[], TypicalWorkload], draw: Callable[[], float]) -> Policy:
    """The policy. ``workload``: the typical one, asked for if the policy needs it; ``draw``: the next random number, in
    [0, 1).

    Raises KeyError for a name that isn't among POLICIES.
    """
    kind = _BY_NAME[name]
    if kind is LeastFragmentation:
        return LeastFragmentation(workload())
    return Random(draw) if kind is Random else kind()
