"""VolumeBinding: refuses nodes to which a pod's volumes can't be attached, and pods whose claims for volumes aren't
bound. The space that CSI drivers report (CSIStorageCapacity) isn't looked at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.policies.node_selection import NodeMatcher
from virt_dra.api.policies.storage_v1 import (
    AVAILABLE,
    FILESYSTEM,
    LOST,
    NO_PROVISIONER,
    SELECTED_NODE,
    STORAGE,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from virt_dra.api.quantity import Quantity
from virt_dra.scheduling.framework.events import ClusterEvent, Hint
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.plugin import FilterScope, PluginAttempt, SchedulingPlugin
from virt_dra.scheduling.framework.refusals import FilterRefusal, Reason

ELSEWHERE: Final = "VolumeElsewhere"
"""The node affinity of a PersistentVolume excludes the node."""
NOT_AVAILABLE: Final = "VolumeNotAvailable"
"""There is no volume for a claim that waits for its pod's node, and none can be made there."""
CLAIM_NOT_BOUND: Final = "VolumeClaimNotBound"
"""A PersistentVolumeClaim isn't there, or has no volume and nobody who gives it one with the pod's node."""

_NAME: Final = "VolumeBinding"
_ELSEWHERE: Final = "node(s) didn't match PersistentVolume's node affinity"
_NO_MATCH: Final = "node(s) didn't find available persistent volumes to bind"
_UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
_EVENTS: Final = frozenset({ClusterEvent.NODE_ADD, ClusterEvent.NODE_LABELS, ClusterEvent.VOLUMES})
_NONE: Final = Quantity("0")


@dataclass(frozen=True)
class KnownVolumes:
    """The volumes of a cluster, by key. A kind that isn't known is None: then nothing is refused for it.
    ``of_class``: the PersistentVolumes of a StorageClass; ``is_to_come``: whether somebody is going to make a
    PersistentVolumeClaim that isn't there, by its key."""

    claims: Mapping[str, PersistentVolumeClaim] | None = None
    volumes: Mapping[str, PersistentVolume] | None = None
    classes: Mapping[str, StorageClass] | None = None
    of_class: Callable[[str], Sequence[PersistentVolume]] = lambda name: ()
    is_to_come: Callable[[str], bool] = lambda key: False


NOTHING_KNOWN: Final = KnownVolumes()


class VolumeBinding(SchedulingPlugin):
    """Refuses nodes for the volumes of PersistentVolumeClaims, bound ones and those that wait for the pod."""

    name = _NAME
    scope = FilterScope.NODE

    def __init__(self, volumes: KnownVolumes = NOTHING_KNOWN) -> None:
        self._known = volumes

    @property
    def hints(self) -> tuple[Hint, ...]:
        return (Hint(_EVENTS),)

    def attempt(self, pod: Pod) -> PluginAttempt | FilterRefusal | None:
        asked = pod.volume_claims
        if not asked or self._known.claims is None:
            return None
        claims: list[PersistentVolumeClaim] = []
        for key, generated in asked:
            claim, name = self._known.claims.get(key), key.partition("/")[2]
            if claim is None:
                if generated or self._known.is_to_come(key):
                    continue
                return _refused(f'persistentvolumeclaim "{name}" not found')
            if claim.status.phase == LOST:
                lost = claim.spec.volume_name
                return _refused(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{lost}"')
            if claim.metadata.deletion_timestamp is not None:
                return _refused(f'persistentvolumeclaim "{name}" is being deleted')
            claims.append(claim)
        if any(map(self._is_stuck, claims)):
            return _refused(_UNBOUND)
        bound: list[_Volume] = []
        for name in [claim.spec.volume_name for claim in claims if claim.is_bound and self._known.volumes is not None]:
            volume = (self._known.volumes or {}).get(name)
            if volume is None:
                return _refused(f'persistentvolume "{name}" not found')  # said by VolumeZone there
            bound.append(_Volume(volume))
        waiting = [claim for claim in claims if not claim.is_bound and self._waits(claim)]
        return _Attempt(self._known, bound, waiting) if bound or waiting else None

    def _waits(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim is bound once its pod has a node."""
        storage = (self._known.classes or {}).get(claim.class_name)
        return storage is not None and storage.waits and not claim.spec.volume_name

    def _is_stuck(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim is there unbound, and its class binds at once. One without a UID isn't created yet."""
        created = bool(claim.metadata.uid) and (self._known.classes is not None or bool(claim.spec.volume_name))
        return created and not claim.is_bound and not self._waits(claim)


def _refused(text: str) -> FilterRefusal:
    return FilterRefusal(_NAME, (text,), code=CLAIM_NOT_BOUND)


class _Volume:
    """A volume that a pod has or may get. ``rank``: among those that a claim may get, by size."""

    def __init__(self, volume: PersistentVolume, rank: int = 0) -> None:
        affinity = volume.spec.node_affinity
        self.name, self.rank = volume.name, rank
        self._required = affinity.required if affinity is not None else None

    @cached_property
    def _matcher(self) -> NodeMatcher | None:
        return NodeMatcher(self._required, lenient=True) if self._required is not None else None

    def can_be_at(self, node: Node) -> bool:
        """Whether its node affinity admits the node."""
        return self._matcher is None or self._matcher.matches(node)

    @property
    def asked_labels(self) -> Sequence[tuple[str, str]] | None:
        """Labels one of which each node that is admitted has; None where its affinity names none."""
        labels: list[tuple[str, str]] = []
        for term in self._required.node_selector_terms if self._required is not None else ():
            of_one = next((asked for asked in term.match_expressions if asked.operator == "In"), None)
            if of_one is None:
                return None
            labels += [(of_one.key, value) for value in of_one.values]
        return labels if self._required is not None else None


class _Candidates:
    """The volumes that a claim may get: the one that names it, or else the smallest free one. Those of single nodes, as
    local disks are, are found by the node's labels: a node doesn't cost more with the volumes of others."""

    def __init__(self, claim: PersistentVolumeClaim, of_class: Sequence[PersistentVolume]) -> None:
        serving = [volume for volume in of_class if _serves(volume, claim)]
        self._named = next((_Volume(volume) for volume in serving if volume.spec.claim_ref is not None), None)
        free = [volume for volume in serving if _is_free_for(volume, claim)] if self._named is None else []
        free.sort(key=lambda volume: volume.spec.capacity.get(STORAGE, _NONE))
        self._anywhere: list[_Volume] = []
        self._by_label = defaultdict[tuple[str, str], list[_Volume]](list)
        for rank, volume in enumerate(free):
            candidate = _Volume(volume, rank)
            labels = candidate.asked_labels
            for bucket in [self._anywhere] if labels is None else map(self._by_label.__getitem__, labels):
                bucket.append(candidate)
        self._keys = {key for key, _ in self._by_label}

    def best(self, node: Node, chosen: Collection[str]) -> _Volume | None:
        """The volume for the claim on a node. ``chosen``: names of those that other claims of the pod get."""
        if self._named is not None:
            return self._named if self._named.can_be_at(node) else None
        labels = node.metadata.labels
        buckets = [self._by_label.get((key, labels[key]), ()) for key in self._keys if key in labels]
        first_fitting = (
            next((volume for volume in bucket if volume.name not in chosen and volume.can_be_at(node)), None)
            for bucket in (self._anywhere, *buckets)
        )
        return min(filter(None, first_fitting), key=lambda volume: volume.rank, default=None)


class _Attempt(PluginAttempt):
    def __init__(
        self, volumes: KnownVolumes, bound: Sequence[_Volume], waiting: Sequence[PersistentVolumeClaim]
    ) -> None:
        self._known, self._bound = volumes, bound
        unbound = sorted((claim for claim in waiting if SELECTED_NODE not in claim.metadata.annotations), key=_size)
        self._waiting = [(claim, _Candidates(claim, volumes.of_class(claim.class_name))) for claim in unbound]
        self._begun = [claim for claim in waiting if SELECTED_NODE in claim.metadata.annotations]

    def filter(self, state: NodeState) -> FilterRefusal | None:
        unserved = (_NO_MATCH,) if self._without_volume(state.node) is not None else ()
        if self._elsewhere(state.node) is not None:
            return FilterRefusal(_NAME, (_ELSEWHERE, *unserved), code=ELSEWHERE)
        return FilterRefusal(_NAME, unserved, code=NOT_AVAILABLE) if unserved else None

    def reasons(self, state: NodeState) -> Iterator[Reason]:
        elsewhere, claim = self._elsewhere(state.node), self._without_volume(state.node)
        if elsewhere is not None:
            yield Reason(ELSEWHERE, f"PersistentVolume {elsewhere.name} can't be attached there by its node affinity")
        if claim is not None:
            text = f"PersistentVolumeClaim {claim.name} finds no volume there, and none can be made"
            yield Reason(NOT_AVAILABLE, text)

    def _elsewhere(self, node: Node) -> _Volume | None:
        """The first bound volume that can't be attached to the node."""
        return next((volume for volume in self._bound if not volume.can_be_at(node)), None)

    def _without_volume(self, node: Node) -> PersistentVolumeClaim | None:
        """The first claim that waits for its pod's node and can't be bound on this one."""
        for claim in self._begun:
            if claim.metadata.annotations[SELECTED_NODE] != node.name:
                return claim
        chosen: set[str] = set()
        to_make = list(self._begun)
        for claim, candidates in self._waiting:
            volume = candidates.best(node, chosen)
            if volume is None:
                to_make.append(claim)
            else:
                chosen.add(volume.name)
        return next((claim for claim in to_make if not self._can_make(claim, node)), None)

    def _can_make(self, claim: PersistentVolumeClaim, node: Node) -> bool:
        storage = (self._known.classes or {}).get(claim.class_name)
        if storage is None:
            return True
        if storage.provisioner in ("", NO_PROVISIONER):
            return self._known.volumes is None
        labels = node.metadata.labels
        return not storage.allowed_topologies or any(
            term.match_label_expressions
            and all(labels.get(asked.key) in asked.values for asked in term.match_label_expressions)
            for term in storage.allowed_topologies
        )


def _size(claim: PersistentVolumeClaim) -> Quantity:
    return claim.spec.resources.requests.get(STORAGE, _NONE)


def _serves(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is free or names the claim, and is as large and of the mode that it asks for."""
    named, spec = volume.spec.claim_ref, volume.spec
    if named is not None and not (
        (named.namespace, named.name) == (claim.namespace, claim.name) and named.uid in ("", claim.metadata.uid)
    ):
        return False
    return (
        spec.capacity.get(STORAGE, _NONE) >= _size(claim)
        and (spec.volume_mode or FILESYSTEM) == (claim.spec.volume_mode or FILESYSTEM)
        and (spec.volume_attributes_class_name or "") == (claim.spec.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def _is_free_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    selector = claim.spec.selector
    return (
        volume.status.phase == AVAILABLE
        and (selector is None or selector.matches(volume.metadata.labels))
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
    )
