"""core/v1's ResourceQuota: how much the objects of a namespace may ask for together."""

from __future__ import annotations

from typing import ClassVar

from virt_dra.api.meta import TypedObject
from virt_dra.api.quantity import Quantity
from virt_dra.api.wire import EMPTY_MAP, List, Map, Str, Wire


class ScopeRequirement(Wire):
    """``scope_name`` as in ``scopes``; operators are those of label selectors."""

    scope_name: Str = ""
    operator: Str = ""
    values: List[Str] = ()


class ScopeSelector(Wire):
    match_expressions: List[ScopeRequirement] = ()


class ResourceQuotaSpec(Wire):
    hard: Map[Quantity] = EMPTY_MAP
    scopes: List[Str] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Wire):
    hard: Map[Quantity] = EMPTY_MAP
    used: Map[Quantity] = EMPTY_MAP


class ResourceQuota(TypedObject):
    API_VERSION: ClassVar[str] = "v1"

    spec: ResourceQuotaSpec = ResourceQuotaSpec.empty()
    status: ResourceQuotaStatus = ResourceQuotaStatus.empty()
