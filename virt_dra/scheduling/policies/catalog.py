"""The policies by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from virt_dra.scheduling.policies.aligned import Aligned
from virt_dra.scheduling.policies.baselines import BestFit, Clustering, DotProduct, GpuPacking, WholePerCent
from virt_dra.scheduling.policies.by_card import FirstFit, LeastWaste, Pack, Quiet, Random, Spread
from virt_dra.scheduling.policies.fragmentation import LeastFragmentation, TypicalWorkload
from virt_dra.scheduling.policies.policy import Policy, RatedPolicy

_BY_NAME: Final[dict[str, type[Policy]]] = {
    policy.name: policy
    for policy in (
        *(FirstFit, Pack, Spread, Aligned, Quiet, LeastWaste, LeastFragmentation, Random),
        *(DotProduct, Clustering, BestFit, GpuPacking),
    )
}

POLICIES: Final[dict[str, str]] = {name: policy.summary for name, policy in _BY_NAME.items()}
"""Name -> one line about the policy, in the order in which they are listed."""

RATED: Final = tuple(name for name, policy in _BY_NAME.items() if issubclass(policy, RatedPolicy | Random))
"""Those to which kube-scheduler's scoring can be applied."""


def policy_named(
    name: str, workload: Callable[[], TypicalWorkload], draw: Callable[[], float], *, whole_per_cent: bool = False
) -> Policy:
    """The policy. ``workload``: the typical one, asked for if the policy needs it; ``draw``: a random number in [0, 1);
    ``whole_per_cent``: scored as by kube-scheduler. Raises KeyError for a name not in POLICIES, or RATED."""
    kind = _BY_NAME[name]
    if kind is Random:
        return Random(draw)
    policy = LeastFragmentation(workload()) if kind is LeastFragmentation else kind()
    if not whole_per_cent:
        return policy
    if not isinstance(policy, RatedPolicy):
        raise KeyError(name)
    return WholePerCent(policy, draw)
