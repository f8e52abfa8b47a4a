"""Role-based access control, as kube-apiserver's authorizer RBAC evaluates it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from virt_dra.api.go_text import quoted
from virt_dra.api.meta import ObjectT
from virt_dra.api.policies.rbac_v1 import (
    API_GROUP,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from virt_dra.cluster.memory.authorization.access_request import AccessRequest, Decision
from virt_dra.cluster.memory.authorization.builtin_roles import BINDINGS, ROLES
from virt_dra.cluster.requester import MASTERS, SERVICE_ACCOUNT, Requester


class Stored(Protocol):
    """What the cluster holds."""

    def find(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT | None: ...

    def every(self, kind: type[ObjectT], namespace: str = "") -> Iterable[ObjectT]: ...


def authorize(request: AccessRequest, stored: Stored) -> Decision:
    """Allowed by some rule of some role that is bound to the user; built-in roles count if no other has their name."""
    if MASTERS in request.requester.groups:
        return Decision(allowed=True)
    problems: list[str] = []
    for rules in _roles_of(request.requester, request.namespace, stored, problems):
        if any(_allows(rule, request) for rule in rules):
            return Decision(allowed=True)
    if not problems:
        return Decision(allowed=False)
    unique = tuple(dict.fromkeys(problems))
    listed = unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
    return Decision(allowed=False, reason=f"rbac: RBAC: {listed}")


def _roles_of(user: Requester, namespace: str, stored: Stored, problems: list[str]) -> Iterator[tuple[PolicyRule, ...]]:
    """The rules of each role bound to the user in the cluster or the namespace. Bindings to no role become problems."""
    for binding in (*stored.every(ClusterRoleBinding), *BINDINGS):
        if any(_is_meant(subject, user, "") for subject in binding.subjects):
            yield _rules(binding.role_ref, "", stored, problems)
    if namespace:
        for local in stored.every(RoleBinding, namespace):
            if any(_is_meant(subject, user, namespace) for subject in local.subjects):
                yield _rules(local.role_ref, namespace, stored, problems)


def _rules(ref: RoleRef, namespace: str, stored: Stored, problems: list[str]) -> tuple[PolicyRule, ...]:
    role: Role | ClusterRole | None
    if ref.kind == "Role":
        role = stored.find(Role, ref.name, namespace)
    elif ref.kind == "ClusterRole":
        role = stored.find(ClusterRole, ref.name) or ROLES.get(ref.name)
    else:
        problems.append(f"unsupported role reference kind: {quoted(ref.kind)}")
        return ()
    if role is None:
        problems.append(f"{ref.kind.lower()}.{API_GROUP} {quoted(ref.name)} not found")
        return ()
    return role.rules


def _is_meant(subject: Subject, user: Requester, namespace: str) -> bool:
    match subject.kind:
        case "User":
            return subject.name == user.name
        case "Group":
            return subject.name in user.groups
        case "ServiceAccount":
            within = subject.namespace or namespace
            return bool(within) and user.name == f"{SERVICE_ACCOUNT}{within}:{subject.name}"
    return False


def _allows(rule: PolicyRule, request: AccessRequest) -> bool:
    return (
        _has(rule.verbs, request.verb)
        and _has(rule.api_groups, request.resource.group)
        and (
            _has(rule.resources, request.path)
            or (bool(request.subresource) and f"*/{request.subresource}" in rule.resources)
        )
        and (not rule.resource_names or request.name in rule.resource_names)
    )


def _has(allowed: tuple[str, ...], asked: str) -> bool:
    return "*" in allowed or asked in allowed
