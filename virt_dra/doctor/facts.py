"""What ``virt-dra doctor`` looks at, as it was read from a cluster, and what it has to say about it. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from virt_dra.api.wire import Json

Level = Literal["ok", "info", "warning", "error"]
OK: Final = "ok"
INFO: Final = "info"
WARNING: Final = "warning"
ERROR: Final = "error"


@dataclass(frozen=True)
class DoctorFinding:
    """``id``: which check. ``where``: which object or component. ``advice``: what to do; empty where nothing needs doing."""

    id: str
    level: Level
    where: str
    message: str
    advice: str = ""

    def to_wire(self) -> Json:
        return {"id": self.id, "level": self.level, "where": self.where, "message": self.message} | (
            {"advice": self.advice} if self.advice else {}
        )


@dataclass(frozen=True)
class Unknown:
    """What could not be read, why, and what to do about it; or what there was no reason to ask for."""

    why: str
    advice: str = "run doctor as somebody who may read it"
    level: Level = WARNING


@dataclass(frozen=True)
class Certificate:
    """The webhook's. ``trusted_by``: names of the webhook configurations whose caBundle it is signed by."""

    expires: datetime
    dns_names: tuple[str, ...]
    trusted_by: tuple[str, ...]


@dataclass(frozen=True)
class Permission:
    """One right of a ServiceAccount, as the manifests give it, and what the authorizer says."""

    account: str
    verb: str
    resource: str
    allowed: bool


@dataclass(frozen=True)
class ClusterFacts:
    """All that is looked at. ``features``: the API server's gates, True where on. ``probe``: the API server's answer to the dry-run of a
    VMI that only virt-dra's webhook denies; "" where it was accepted. ``missing``: objects of the manifests that aren't there.
    ``network_policy``: the webhook's.
    ``launcher_policy``: the ValidatingAdmissionPolicy of the pods that the operator may create (standalone)."""

    now: datetime
    version: str | Unknown
    api_versions: frozenset[str] | Unknown
    features: Mapping[str, bool] | Unknown
    definitions: Mapping[str, Json] | Unknown
    kubevirts: Sequence[Json] | Unknown
    slices: Sequence[Json] | Unknown
    classes: Sequence[Json] | Unknown
    deployments: Sequence[Json] | Unknown
    pods: Sequence[Json] | Unknown = ()
    configurations: Sequence[Json] | Unknown = ()
    ready_endpoints: int | Unknown = 0
    certificate: Certificate | Unknown = field(default=Unknown("nothing is installed"))
    lease: Json | Unknown | None = None
    rights: Sequence[Permission] | Unknown = ()
    missing: Sequence[str] | Unknown = ()
    network_policy: Json | Unknown | None = None
    probe: str | Unknown = field(default=Unknown("nothing is installed"))
    launcher_policy: Json | Unknown | None = None

    @property
    def overlay(self) -> str:
        """Which one is installed, by the operator's argument; "" for none."""
        for deployment in () if isinstance(self.deployments, Unknown) else self.deployments:
            for container in deployment["spec"]["template"]["spec"]["containers"]:
                for argument in container.get("args") or ():
                    if argument.startswith("--mode="):
                        return str(argument.removeprefix("--mode="))
        return ""

    @property
    def namespace(self) -> str:
        """Where virt-dra is; "" where it isn't."""
        deployments = () if isinstance(self.deployments, Unknown) else self.deployments
        return next((str(each["metadata"]["namespace"]) for each in deployments), "")
