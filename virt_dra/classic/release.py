"""How classic DRA differs between Kubernetes releases (C-18.1, C-18.6)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClassicRelease:
    """A minor release of Kubernetes 1, from 26 to 31."""

    minor: int = 30

    def __post_init__(self) -> None:
        if not 26 <= self.minor <= 31:
            raise ValueError(f"classic DRA is in Kubernetes 1.26 to 1.31, not in 1.{self.minor}")

    @property
    def fixed_claim_names(self) -> bool:
        """Generated claims are named after pod and entry, which no status records."""
        return self.minor < 28

    def claim_not_found(self, namespace: str, name: str) -> str:
        """The scheduler's error for a claim that isn't there: 1.31 looks in a cache of its own."""
        if self.minor < 31:
            return f'resourceclaim.resource.k8s.io "{name}" not found'
        return f'could not find ResourceClaim "{namespace}/{name}"'

    @property
    def writes_in_reserve(self) -> bool:
        """The scheduler writes scheduling contexts and reservations in Reserve, not in PreBind."""
        return self.minor < 29

    @property
    def patches_reservations(self) -> bool:
        """The scheduler adds a consumer by a strategic merge patch, which puts it first; 1.31 replaces the status."""
        return self.minor < 31

    def reservation_failed(self, namespace: str, name: str) -> str:
        """What the scheduler's error begins with where a consumer couldn't be added; "" for the API server's words."""
        return "" if self.minor < 31 else f"add reservation to claim {namespace}/{name}"

    @property
    def counts_nodes_in_pre_bind(self) -> bool:
        """What PreBind says is counted as a node's refusal in the pod's condition; until 1.30 it is the condition."""
        return self.minor > 30

    @property
    def tries_preemptors_again(self) -> bool:
        """A pod for which others were evicted is tried again at once; 1.31 waits until they are gone."""
        return self.minor < 31

    @property
    def structured_parameters(self) -> bool:
        """Named resources, allocated by the scheduler. 1.31 has the devices of today instead."""
        return self.minor == 30

    @property
    def api_version(self) -> str:
        """The version of resource.k8s.io."""
        return f"resource.k8s.io/v1alpha{1 if self.minor < 27 else 2 if self.minor < 31 else 3}"

    @property
    def has_handles(self) -> bool:
        """An allocation carries handles for the node's driver."""
        return self.minor < 31

    @property
    def batches_prepare(self) -> bool:
        """The kubelet asks a driver about all claims of a pod in one call, which 1.26 does claim by claim."""
        return self.minor > 26


NEWEST_STRUCTURED = ClassicRelease(30)
"""The default release: the one with the most complete classic DRA."""
