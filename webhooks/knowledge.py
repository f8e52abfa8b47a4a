"""The webhook's knowledge of its cluster: a small port.

The webhook never calls the API server during a review. What it may need is in memory and immutable: a watcher of a
cluster replaces one state by another as a whole (the server gets a function that returns the current one), so that a
review sees one state from beginning to end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from virt_dra.api.core_v1 import PodResourceClaim
from virt_dra.api.integration.known_drivers import ALWAYS_WRITE
from virt_dra.api.integration.paths import ClaimRequestPair
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.kubevirt_versions import Gates
from virt_dra.api.persistent_map import PersistentMap
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.matching.published_slice import PublishedSlice
from virt_dra.matching.slice_answers import SelectorEvaluator
from webhooks.rules.reviewed_spec import VmObject
from webhooks.verdict import Verdict

DRIVER_WAIT: Final = timedelta(minutes=2)
"""How long a launcher pod is refused at most while the driver of one of its requests is unknown (decision 0012)."""


@dataclass(frozen=True)
class LauncherSettings:
    """Settings of the webhook for launcher pods.

    ``wait_image``: of the init container that waits for addresses; "" for that of the container compute. It must have
    /bin/sh and sleep. ``driver_wait``: how long a pod is refused while no published device and no selector says which
    driver serves a request.
    """

    wait_image: str = ""
    driver_wait: timedelta = DRIVER_WAIT


@dataclass(frozen=True)
class MissingObject:
    """An object that a request needs and that doesn't exist. ``namespace``: "" for a cluster-scoped kind. ``named_by``:
    for messages."""

    kind: str
    name: str
    namespace: str
    named_by: str

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f'{self.kind} "{self.name}", which {self.named_by} names, does not exist{where}'


@dataclass(frozen=True)
class RequestDrivers:
    """The drivers whose devices may serve a request, sorted. ``complete``: no other published device matches.

    ``missing``: the objects that have to exist before the drivers can be known. ``undecided``: set if all of them
    exist, but neither a published device nor the text of a selector determines the driver; the time at which the newest
    of them was created.
    """

    drivers: tuple[str, ...] = ()
    complete: bool = True
    missing: tuple[MissingObject, ...] = ()
    undecided: datetime | None = None


class Knowledge(Protocol):
    """One state of a cluster, for reviews. No method blocks."""

    def with_evaluator(self, evaluator: SelectorEvaluator) -> Knowledge:
        """A copy for one review, with its evaluator of selectors."""

    @property
    def slices(self) -> PersistentMap[str, PublishedSlice] | None:
        """The published slices by name, on which selectors are evaluated; None if selectors are never evaluated."""

    @property
    def verified(self) -> bool:
        """True if the caller is an API server, so that answers may depend on everything known.

        Otherwise the review may be forged, and an answer depends only on what the review carries, on KubeVirt's release
        and gates, and for a launcher pod on its VMI and what that names, if the review has the VMI's uid.
        """

    @property
    def for_unverified(self) -> Knowledge:
        """A copy for a review of an unverified caller."""

    @property
    def gates(self) -> Gates:
        """The KubeVirt version at hand with its feature gates."""

    @property
    def unwanted_warnings(self) -> Collection[str]:
        """Ids of warnings of :func:`webhooks.vmi.review` that are ignored, or are denials of :meth:`preflight`."""

    def preflight(self, subject: VmObject, old: VmObject | None = None) -> Verdict:
        """The verdict on a VM or VMI that the rules admit, from the objects of its namespace that it names.

        ``old``: the object before an update. :class:`webhooks.lint.Preflight` implements this.
        """

    @property
    def profiles(self) -> Mapping[str, DeviceProfile] | None:
        """The DeviceProfiles by name, whoever asks; None if they aren't known."""

    def namespace_labels(self, namespace: str) -> Mapping[str, str] | None:
        """The labels of a namespace, whoever asks; None where namespaces aren't known."""

    @property
    def launcher(self) -> LauncherSettings:
        """How launcher pods are changed."""

    @property
    def writers(self) -> frozenset[str]:
        """The drivers that write metadata files (``known_drivers.metadata_writers``)."""

    @property
    def now(self) -> datetime | None:
        """The present time if the cluster is watched, so that a pod may be refused until a missing object appears; None
        if the state was read once."""

    def count_from(self, moment: datetime) -> datetime:
        """An object's timestamp by this clock: never later than :attr:`now`, although another clock wrote it."""

    def vmi(self, namespace: str, name: str) -> VirtualMachineInstance | None:
        """A VMI; None if it isn't known, perhaps because it is new."""

    def drivers(
        self, namespace: str, claims: Iterable[PodResourceClaim], pairs: Iterable[ClaimRequestPair]
    ) -> Mapping[ClaimRequestPair, RequestDrivers]:
        """The drivers that may serve each request of a pod's claims. A pair whose claim isn't known may be missing.

        ``pairs`` are of ``claims``, and name a request.
        """


@dataclass(frozen=True)
class KubeVirtOnly:
    """Knowledge of the KubeVirt at hand only."""

    gates: Gates
    launcher: LauncherSettings = field(default_factory=LauncherSettings)
    unwanted_warnings: Collection[str] = frozenset()
    now: datetime | None = None
    verified: bool = True
    writers: frozenset[str] = ALWAYS_WRITE

    @property
    def for_unverified(self) -> Knowledge:
        return replace(self, verified=False)

    slices: PersistentMap[str, PublishedSlice] | None = None

    def with_evaluator(self, evaluator: SelectorEvaluator) -> Knowledge:
        return self

    def preflight(self, subject: VmObject, old: VmObject | None = None) -> Verdict:
        return Verdict(allowed=True)

    profiles: Mapping[str, DeviceProfile] | None = None

    def namespace_labels(self, namespace: str) -> Mapping[str, str] | None:
        return None

    def count_from(self, moment: datetime) -> datetime:
        return moment

    def vmi(self, namespace: str, name: str) -> VirtualMachineInstance | None:
        return None

    def drivers(
        self, namespace: str, claims: Iterable[PodResourceClaim], pairs: Iterable[ClaimRequestPair]
    ) -> Mapping[ClaimRequestPair, RequestDrivers]:
        return {}
