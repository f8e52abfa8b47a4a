"""Problems of a VM's later life: migration, restart, drain, and other VMs with the same claim (K-10, K-12.3)."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.api.go_text import quoted
from virt_dra.api.integration.live_migration import device_blocker
from webhooks.lint.inputs import title
from webhooks.lint.linted import Linted
from webhooks.rules.reviewed_spec import DEVICE_LISTS
from webhooks.verdict import FieldIssue


def direct_claim_pins(linted: Linted) -> Iterator[FieldIssue]:
    """Direct claims, with which a VM can't leave its node (K-10.2, K-10.3)."""
    for claim in linted.claims:
        if claim.direct:
            yield FieldIssue(
                claim.field,
                f"a ResourceClaim that is named directly ({quoted(claim.name)}) keeps its devices, so the VM is pinned "
                "to their node: it can't migrate, and it doesn't start elsewhere if the node is lost. Use a template, "
                "unless that is intended",
            )


def direct_claim_shared(linted: Linted) -> Iterator[FieldIssue]:
    """Claims that several VMs name; a device can be passed to only one running VM."""
    own = title(linted.object)
    for claim in linted.claims:
        users = linted.inputs.users(linted.namespace, claim.name) if claim.direct else ()
        if others := [user for user in users if user != own]:
            named = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
            yield FieldIssue(
                claim.field,
                f"ResourceClaim {quoted(claim.name)} is also named by {named}; only one of them can run at a time. "
                "Give each VM its own claim, preferably from a template",
            )


def eviction_blocks_drain(linted: Linted) -> Iterator[FieldIssue]:
    """VMs that must migrate to be evicted and can't migrate, which blocks the drain of their node (K-10.1, K-10.2)."""
    strategy = (linted.reviewed.spec.model_extra or {}).get("evictionStrategy")
    kubevirt = linted.inputs.configuration
    if strategy != "LiveMigrate" or device_blocker(linted.reviewed.spec, kubevirt.gates, kubevirt.permitted) is None:
        return
    for kind in DEVICE_LISTS:
        if any(device.is_dra for device in kind.devices(linted.reviewed.spec)):
            yield FieldIssue(
                linted.path("evictionStrategy"),
                f"a VM with {kind.plural} from claims can't migrate, so with LiveMigrate its node can't be drained "
                "while it runs. Use LiveMigrateIfPossible, or None to let it be shut down",
            )
            return
