"""The node that an allocated claim is bound to by its devices."""

from __future__ import annotations

from virt_dra.api.resource_v1 import ResourceClaim


def claim_node(claim: ResourceClaim) -> str:
    """The one node that a claim's devices can be used on; "" if it isn't allocated, or can be used on several."""
    selector = claim.status.allocation.node_selector if claim.status.allocation is not None else None
    if selector is None or len(selector.node_selector_terms) != 1:
        return ""
    term = selector.node_selector_terms[0]
    for requirement in (*term.match_fields, *term.match_expressions):
        if (
            requirement.key in ("metadata.name", "kubernetes.io/hostname")
            and requirement.operator == "In"
            and len(requirement.values) == 1
        ):
            return requirement.values[0]
    return ""
