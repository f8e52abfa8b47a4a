"""rbac.authorization.k8s.io/v1: roles, which are rules, and their bindings to users, groups and service accounts."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from virt_dra.api.meta import TypedObject
from virt_dra.api.wire import List, Str, Wire

API_GROUP = "rbac.authorization.k8s.io"


class PolicyRule(Wire):
    """What is allowed: each verb on each resource (``resource/subresource``) of each group; with names, on these."""

    verbs: List[Str] = ()
    api_groups: List[Str] = ()
    resources: List[Str] = ()
    resource_names: List[Str] = ()
    non_resource_urls: List[Str] = Field(default=(), alias="nonResourceURLs")


class RoleRef(Wire):
    api_group: Str = ""
    kind: Str = ""
    name: Str = ""


class Subject(Wire):
    """The holder of a role. ``namespace`` is a service account's."""

    kind: Str = ""
    api_group: Str = ""
    name: Str = ""
    namespace: Str = ""


class Role(TypedObject):
    API_VERSION: ClassVar[str] = f"{API_GROUP}/v1"
    HAS_STATUS: ClassVar[bool] = False

    rules: List[PolicyRule] = ()


class ClusterRole(TypedObject):
    API_VERSION: ClassVar[str] = f"{API_GROUP}/v1"
    NAMESPACED: ClassVar[bool] = False
    HAS_STATUS: ClassVar[bool] = False

    rules: List[PolicyRule] = ()


class RoleBinding(TypedObject):
    API_VERSION: ClassVar[str] = f"{API_GROUP}/v1"
    HAS_STATUS: ClassVar[bool] = False

    subjects: List[Subject] = ()
    role_ref: RoleRef = RoleRef.empty()


class ClusterRoleBinding(TypedObject):
    API_VERSION: ClassVar[str] = f"{API_GROUP}/v1"
    NAMESPACED: ClassVar[bool] = False
    HAS_STATUS: ClassVar[bool] = False

    subjects: List[Subject] = ()
    role_ref: RoleRef = RoleRef.empty()
