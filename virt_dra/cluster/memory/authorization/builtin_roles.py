"""The roles and bindings that every cluster begins with, as far as objects of this project go (Kubernetes 1.37).
``admin``, ``edit`` and ``view``, which a controller composes there, have no rules here."""

from __future__ import annotations

from collections.abc import Iterable

from virt_dra.api.meta import ObjectMeta
from virt_dra.api.policies.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from virt_dra.cluster.requester import MASTERS

_READ = "get list watch"
_DRA, _SCHEDULING, _EVENTS = "resource.k8s.io", "scheduling.k8s.io", "events.k8s.io"
_CONTROLLER = "system:controller:"


def _rule(verbs: str, group: str, resources: str) -> PolicyRule:
    return PolicyRule(verbs=tuple(verbs.split()), api_groups=(group,), resources=tuple(resources.split()))


_RECORDS_EVENTS = tuple(_rule("create patch update", group, "events") for group in ("", _EVENTS))

_RULES: dict[str, tuple[PolicyRule, ...]] = {
    "cluster-admin": (_rule("*", "*", "*"),),
    "admin": (),
    "edit": (),
    "view": (),
    "system:kube-scheduler": (
        *_RECORDS_EVENTS,
        _rule(_READ, "", "nodes services replicationcontrollers persistentvolumeclaims persistentvolumes namespaces"),
        _rule(f"{_READ} delete", "", "pods"),
        _rule("create", "", "pods/binding bindings"),
        _rule("patch update", "", "pods/status"),
        _rule("update", "", "pods/finalizers"),
        _rule(_READ, "policy", "poddisruptionbudgets"),
        _rule(_READ, _DRA, "deviceclasses resourceslices devicetaintrules"),
        _rule(f"{_READ} update patch", _DRA, "resourceclaims resourceclaims/status"),
        _rule("create delete", _DRA, "resourceclaims"),
        _rule("update patch", _DRA, "resourceclaims/binding"),
        _rule(_READ, _SCHEDULING, "podgroups"),
        _rule("patch update", _SCHEDULING, "podgroups/status"),
    ),
    f"{_CONTROLLER}resource-claim-controller": (
        *_RECORDS_EVENTS,
        _rule(_READ, "", "pods"),
        _rule("update", "", "pods/finalizers"),
        _rule("update patch", "", "pods/status"),
        _rule(f"{_READ} create delete", _DRA, "resourceclaims"),
        _rule("update patch", _DRA, "resourceclaims resourceclaims/status resourceclaims/binding"),
        _rule(_READ, _SCHEDULING, "podgroups"),
        _rule("update patch", _SCHEDULING, "podgroups/status"),
    ),
    f"{_CONTROLLER}device-taint-eviction-controller": (
        *_RECORDS_EVENTS,
        _rule(f"{_READ} delete", "", "pods"),
        _rule("update patch", "", "pods/status"),
        _rule(_READ, _DRA, "resourceclaims resourceslices deviceclasses devicetaintrules"),
        _rule("update patch", _DRA, "devicetaintrules/status"),
    ),
    f"{_CONTROLLER}resourcepoolstatusrequest-controller": (
        *_RECORDS_EVENTS,
        _rule(f"{_READ} delete", _DRA, "resourcepoolstatusrequests"),
        _rule("update patch", _DRA, "resourcepoolstatusrequests/status"),
        _rule(_READ, _DRA, "resourceslices resourceclaims devicetaintrules"),
    ),
}  # fmt: skip

ROLES = {name: ClusterRole(metadata=ObjectMeta(name=name), rules=rules) for name, rules in _RULES.items()}


def _bindings() -> Iterable[ClusterRoleBinding]:
    subjects = {
        "cluster-admin": Subject(kind="Group", name=MASTERS),
        "system:kube-scheduler": Subject(kind="User", name="system:kube-scheduler"),
    }
    subjects |= {
        role: Subject(kind="ServiceAccount", name=role.removeprefix(_CONTROLLER), namespace="kube-system")
        for role in _RULES
        if role.startswith(_CONTROLLER)
    }
    for role, subject in subjects.items():
        ref = RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=role)
        yield ClusterRoleBinding(metadata=ObjectMeta(name=role), subjects=(subject,), role_ref=ref)


BINDINGS = tuple(_bindings())
