"""The facts that ``virt-dra doctor`` reads from a cluster. Values only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

from virt_dra.api.integration.check_findings import WARNING, CheckFinding, CheckSubject, Level
from virt_dra.api.wire import Json

T = TypeVar("T")

KEEPER: Final = "virt-dra-keeper"
"""The Deployment of a part that needn't be installed."""


@dataclass(frozen=True)
class Unknown:
    """A fact that could not be read, with the reason and the remedy, or that didn't need to be read."""

    why: str
    advice: str = "run doctor with an account that may read it"
    level: Level = WARNING


def unread(subject: CheckSubject, *facts: object, prefix: str = "can't be read: ") -> CheckFinding:
    """The finding about the first unknown one of these facts."""
    unknown = next(fact for fact in facts if isinstance(fact, Unknown))
    return CheckFinding(subject.check, unknown.level, subject.where, f"{prefix}{unknown.why}", unknown.advice)


def items(fact: Iterable[T] | Unknown) -> Iterable[T]:
    """The items of a fact; none if it is unknown."""
    return () if isinstance(fact, Unknown) else fact


@dataclass(frozen=True)
class Certificate:
    """The webhook's certificate. ``trusted_by``: the webhook configurations whose caBundle has its signer."""

    expires: datetime
    dns_names: tuple[str, ...]
    trusted_by: tuple[str, ...]


@dataclass(frozen=True)
class Permission:
    """One RBAC permission of a ServiceAccount in the manifests, and the authorizer's verdict."""

    account: str
    verb: str
    resource: str
    allowed: bool


@dataclass(frozen=True)
class ClusterFacts:
    """The state of a cluster. ``features``: the API server's gates. ``probe``: the API server's answer to the dry run
    of a VMI that only virt-dra's webhook denies; "" if it was accepted. ``missing``: objects of the manifests that
    don't exist. ``network_policy``: the webhook's. ``launcher_policy``: the ValidatingAdmissionPolicy of the pods that
    the operator may create (standalone)."""

    now: datetime
    version: str | Unknown
    api_versions: Collection[str] | Unknown
    features: Mapping[str, bool] | Unknown
    crds: Mapping[str, Json] | Unknown
    kubevirts: Sequence[Json] | Unknown
    slices: Sequence[Json] | Unknown
    classes: Sequence[Json] | Unknown
    deployments: Sequence[Json] | Unknown
    pods: Sequence[Json] | Unknown = ()
    configurations: Sequence[Json] | Unknown = ()
    ready_endpoints: int | Unknown = 0
    certificate: Certificate | Unknown = field(default=Unknown("nothing is installed"))
    lease: Json | Unknown | None = None
    permissions: Sequence[Permission] | Unknown = ()
    missing: Sequence[str] | Unknown = ()
    network_policy: Json | Unknown | None = None
    probe: str | Unknown = field(default=Unknown("nothing is installed"))
    launcher_policy: Json | Unknown | None = None
    drivers: Sequence[Json] | Unknown = ()
    """DaemonSets of the node driver."""
    nodes: Sequence[Json] | Unknown = ()
    """Read only where a KubeVirt object configures mediated devices by nodes."""
    extenders: Sequence[Json] | Unknown = ()
    """DaemonSets of the scheduler extender."""
    extender_answers: Mapping[str, int] | Unknown = field(default_factory=dict)
    """Answers to kube-scheduler since the extenders' pods started, by what became of the requests."""

    keeping_vms: Sequence[str] | Unknown = ()
    """Namespace and name of the VMs that ask to keep their devices; read only where there is no keeper."""

    @property
    def has_keeper(self) -> bool:
        return any(deployment["metadata"]["name"] == KEEPER for deployment in items(self.deployments))

    @property
    def overlay(self) -> str:
        """The installed overlay, by the operator's argument; "" for none."""
        pods = (deployment["spec"]["template"]["spec"] for deployment in items(self.deployments))
        arguments = (text for pod in pods for container in pod["containers"] for text in container.get("args") or ())
        return next((str(text.removeprefix("--mode=")) for text in arguments if text.startswith("--mode=")), "")

    @property
    def namespace(self) -> str:
        """The namespace of virt-dra; "" if it isn't installed."""
        return next((str(deployment["metadata"]["namespace"]) for deployment in items(self.deployments)), "")
