"""The resource claim controller: claims from templates, their names in status, reservations and their release (C-10).

    view        what a decision may know; a decision that needs more asks for a look at the cluster itself
    creating    which claims a pod or a PodGroup needs made, and where their names are recorded
    releasing   what becomes of a claim whose consumers are done
    keys        which change is work for which object
    actions     the writes
    loop        the keyed loop of a control plane
    batch       all objects at once, for a run of VMs from files

Loop and batch differ in what they look at and when; they decide by the same functions. Must not decide about devices.
"""

from virt_dra.controllers.loops.claims.actions import (
    ChangeReservations,
    ClaimAction,
    CreateClaim,
    DeleteClaim,
    RecordClaimNames,
    UnblockDeletion,
    apply,
)
from virt_dra.controllers.loops.claims.batch import ClaimControllerPlan, ClaimInputs, gather, plan, reconcile
from virt_dra.controllers.loops.claims.creating import generate_name, generated_claim
from virt_dra.controllers.loops.claims.releasing import is_done

__all__ = [
    "ChangeReservations",
    "ClaimAction",
    "ClaimControllerPlan",
    "ClaimInputs",
    "CreateClaim",
    "DeleteClaim",
    "RecordClaimNames",
    "UnblockDeletion",
    "apply",
    "gather",
    "generate_name",
    "generated_claim",
    "is_done",
    "plan",
    "reconcile",
]
