"""What a pod's security context and resources ask of a container runtime, as options of containerd's ``ctr run``. Pure.

Nothing is left out silently: a member that isn't known here, or that can't be brought about, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from virt_dra.api.quantity import Quantity

Json = Mapping[str, Any]

DEFAULT_CAPABILITIES: Final = (
    "CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
)  # fmt: skip
"""What containerd gives a container that drops nothing."""
_POD: Final = {"runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup", "seccompProfile"}
_CONTAINER: Final = (_POD - {"fsGroup"}) | {
    "privileged",
    "allowPrivilegeEscalation",
    "readOnlyRootFilesystem",
    "capabilities",
}
_SHARES_PER_CPU: Final = 1024


class NotApplicable(ValueError):
    """A security context that containers here can't be given; the text says where and why."""


@dataclass(frozen=True)
class Restrictions:
    """What a container may do. ``seccomp``: containerd's default profile. ``memory``: bytes; None for no limit.
    ``cpu``: cgroup shares."""

    user: int
    group: int
    volumes_group: int | None
    read_only: bool
    new_privileges: bool
    dropped: tuple[str, ...]
    seccomp: bool
    memory: int | None
    cpu: int | None

    def options(self) -> tuple[str, ...]:
        """Of ``ctr run``; user and group are those of the image, see :func:`restrictions_of`."""
        return (
            *(("--read-only",) if self.read_only else ()),
            *(("--allow-new-privs",) if self.new_privileges else ()),
            *(("--seccomp",) if self.seccomp else ()),
            *(word for name in self.dropped for word in ("--cap-drop", name)),
            *(("--memory-limit", str(self.memory)) if self.memory is not None else ()),
            *(("--cpu-shares", str(self.cpu)) if self.cpu is not None else ()),
        )


def restrictions_of(pod: Json, container: Json, image_user: str) -> Restrictions:
    """What a pod's spec and one of its containers ask for. ``image_user``: the image's own, "65532:65532", with which
    ``ctr`` starts it: another one is refused. Raises :class:`NotApplicable`."""
    outer: Json = pod.get("securityContext") or {}
    inner: Json = container.get("securityContext") or {}
    for where, context, applicable in (("the pod", outer, _POD), (f"container {container['name']}", inner, _CONTAINER)):
        if unknown := sorted(context.keys() - applicable):
            raise NotApplicable(f"securityContext of {where}: {', '.join(unknown)} can't be applied here")
    if inner.get("privileged"):
        raise NotApplicable(f"container {container['name']} is privileged, which isn't applied here")
    both = {**outer, **inner}
    ids = {"runAsUser": both.get("runAsUser"), "runAsGroup": both.get("runAsGroup")}
    user, _, group = image_user.partition(":")
    own = dict(zip(ids, (user, group), strict=True))
    for member, value in ids.items():
        if value is not None and str(value) != own[member]:
            raise NotApplicable(
                f"{member} of container {container['name']} is {value}, and its image's USER {image_user}"
            )
    if not (user.isdecimal() and group.isdecimal()):
        raise NotApplicable(f"the image's USER {image_user!r} names no numbers of a user and a group")
    if both.get("runAsNonRoot") and user == "0":
        raise NotApplicable(f"container {container['name']} has to run as no root, and its image's USER is 0")
    profile = (both.get("seccompProfile") or {"type": "Unconfined"})["type"]
    if profile not in ("RuntimeDefault", "Unconfined"):
        raise NotApplicable(f"seccompProfile {profile} of container {container['name']} can't be applied here")
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if unknown := sorted(limits.keys() - {"memory"}):
        raise NotApplicable(
            f"resources.limits of container {container['name']}: {', '.join(unknown)} can't be applied here"
        )
    return Restrictions(
        user=int(user),
        group=int(group),
        volumes_group=outer.get("fsGroup"),
        read_only=bool(inner.get("readOnlyRootFilesystem")),
        new_privileges=inner.get("allowPrivilegeEscalation") is not False,
        dropped=_dropped(container["name"], inner.get("capabilities") or {}),
        seccomp=profile == "RuntimeDefault",
        memory=Quantity(str(limits["memory"])).value() if "memory" in limits else None,
        cpu=max(2, Quantity(str(requests["cpu"])).milli_value() * _SHARES_PER_CPU // 1000)
        if "cpu" in requests
        else None,
    )


def _dropped(name: str, capabilities: Json) -> tuple[str, ...]:
    if capabilities.get("add"):
        raise NotApplicable(f"capabilities.add of container {name} can't be applied here")
    words = tuple(capabilities.get("drop") or ())
    return DEFAULT_CAPABILITIES if "ALL" in words else tuple(f"CAP_{word}" for word in words)
