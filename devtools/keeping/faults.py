"""Faults to put into the keeper: each is a mistake that somebody could make in a line of it. What the judge is worth is
in how many histories it finds each out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final
from unittest import mock

from virt_dra.api.core_v1 import Node
from virt_dra.api.keeping.claims import NODE_LOST_ANNOTATION, RELEASE_ANNOTATION, STOPPED_ANNOTATION, is_vm_reference
from virt_dra.api.kubevirt_v1 import VirtualMachine
from virt_dra.api.meta import parse_time
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim
from virt_dra.controllers.keeping import gathering, loop, plan
from virt_dra.controllers.writes import PatchStatus
from virt_dra.model import keep_ends

Fault = Callable[[], Any]
"""Puts a fault in while it is entered."""


def _check(name: str, changed: Callable[[Any], Any]) -> Fault:
    """One of the checks of ends, in the one table that has them."""
    assert name in {check.__name__ for check in keep_ends.CHECKS}, name
    checks = tuple(changed if check.__name__ == name else check for check in keep_ends.CHECKS)
    return lambda: mock.patch.object(keep_ends, "CHECKS", checks)


def _marks_without(annotation: str) -> Fault:
    """A mark that isn't taken away."""
    right = plan._Kept._marks

    def wrong(self: Any) -> dict[str, str | None]:
        return {name: value for name, value in right(self).items() if name != annotation or value is not None}

    return lambda: mock.patch.object(plan._Kept, "_marks", wrong)


def _without_pods() -> Any:
    right = plan._Kept.__init__

    def wrong(self: Any, *args: Any) -> None:
        right(self, *args)
        self._pods = ()

    return mock.patch.object(plan._Kept, "__init__", wrong)


def _by_name() -> Any:
    right = keep_ends.unowned

    def same_name(claim: ResourceClaim, vm: VirtualMachine) -> bool:
        owner = claim.metadata.controller_owner
        return owner is not None and owner.name == vm.name

    def unowned(claim: ResourceClaim, vm: VirtualMachine | None) -> str:
        deleted = bool(claim.metadata.deletion_timestamp)
        return "" if vm is not None and not deleted and same_name(claim, vm) else right(claim, vm)

    return _both(mock.patch.object(plan, "_is_of", same_name), mock.patch.object(plan, "unowned", unowned))


def _not_held_when_not_asked() -> Any:
    right = plan._Kept._consumers

    def wrong(self: Any) -> Any:
        wants = self._situation.terms is not None
        return tuple(consumer for consumer in right(self) if wants or not is_vm_reference(consumer))

    return mock.patch.object(plan._Kept, "_consumers", wrong)


def _future_marks() -> Any:
    def wrong(claim: ResourceClaim, annotation: str, now: datetime) -> datetime | None:
        try:
            return parse_time(claim.metadata.annotations.get(annotation, ""))
        except ValueError:
            return None

    return _both(mock.patch.object(keep_ends, "marked_time", wrong), mock.patch.object(plan, "marked_time", wrong))


@contextmanager
def _both(first: Any, other: Any) -> Iterator[None]:
    with first, other:
        yield


async def _uncertain(stores: gathering.KeeperStores, reader: Any, key: str, now: datetime) -> plan.KeepingInputs:
    return stores.inputs(key, now)


def _any_version() -> Any:
    """Whatever version the claim has: without the precondition."""
    right = PatchStatus.between

    def wrong(old: Any, new: Any) -> PatchStatus:
        return replace(right(old, new), obj=old.with_(metadata=old.metadata.with_(resource_version="")))

    return mock.patch.object(PatchStatus, "between", wrong)


def _unaffected(kind: type[Any]) -> Fault:
    right = gathering.KeeperStores.affected

    def wrong(self: Any, old: Any, new: Any) -> set[str]:
        keys = right(self, old, new)
        return set() if isinstance(new if new is not None else old, kind) else keys

    return lambda: mock.patch.object(gathering.KeeperStores, "affected", wrong)


def _never_again() -> Any:
    def wrong(inputs: plan.KeepingInputs) -> plan.KeepingPlan:
        return replace(plan.plan(inputs), requeue_at=None)

    return mock.patch.object(loop, "plan", wrong)


def _keys_of_vms_only() -> Any:
    return mock.patch.object(
        loop.KeepingLoop, "_all_keys", lambda self: sorted(vm.key for vm in self._stores.vms.values())
    )


def _claim_stays() -> Any:
    right = plan._Kept._released
    return mock.patch.object(
        plan._Kept, "_released", lambda self, release: right(self, replace(release, removes=False))
    )


def _away(wrong: Callable[[keep_ends.ClaimSituation, str], str]) -> Fault:
    right = keep_ends.node_absence

    def absence(situation: keep_ends.ClaimSituation) -> str:
        return wrong(situation, right(situation))

    return lambda: _both(
        mock.patch.object(keep_ends, "node_absence", absence), mock.patch.object(plan, "node_absence", absence)
    )


def _lease_while_it_runs(situation: keep_ends.ClaimSituation) -> Any:
    return keep_ends.lease_over(replace(situation, runs=False))


def _at_once(situation: keep_ends.ClaimSituation) -> Any:
    end = keep_ends.node_lost(situation)
    return replace(end, after=timedelta()) if end is not None else None


def _asked_while_it_runs(situation: keep_ends.ClaimSituation) -> Any:
    return keep_ends.release_requested(replace(situation, runs=False))


def _lease_from_now(situation: keep_ends.ClaimSituation) -> Any:
    metadata = situation.claim.metadata
    others = {name: text for name, text in metadata.annotations.items() if name != STOPPED_ANNOTATION}
    claim = situation.claim.with_(metadata=metadata.with_(annotations=others))
    return keep_ends.lease_over(replace(situation, claim=claim))


def _ended_though_in_use(situation: keep_ends.ClaimSituation) -> Any:
    return keep_ends.keeping_ended(replace(situation, entry=""))


def _unused_while_it_ends(situation: keep_ends.ClaimSituation) -> Any:
    return keep_ends.not_used(replace(situation, recorded=situation.recorded or {}))


FAULTS: Final[Mapping[str, Fault]] = {
    "plan: the VM doesn't join the consumers": lambda: mock.patch.object(
        plan._Kept, "_consumers", lambda self: self._claim.status.reserved_for
    ),
    "plan: pods that use the claim don't count": _without_pods,
    "plan: owners are compared by name": _by_name,
    "plan: a VM that no longer asks leaves at once": _not_held_when_not_asked,
    "plan: claims without a VM stay held": lambda: mock.patch.object(plan, "_let_go", return_value=plan.ClaimWrites()),
    "plan: what the garbage collector missed stays": lambda: mock.patch.object(
        plan, "_is_left_behind", return_value=False
    ),
    "plan: a start doesn't end the stop's mark": _marks_without(STOPPED_ANNOTATION),
    "plan: a node's return doesn't end its loss's mark": _marks_without(NODE_LOST_ANNOTATION),
    "plan: a void release stays asked for": _marks_without(RELEASE_ANNOTATION),
    "plan: released claims that are of no use stay": _claim_stays,
    "plan: whatever version the claim has": _any_version,
    "plan: no claim is made": lambda: mock.patch.object(plan, "_made", return_value=([], [])),
    "releases: marks of the future count": _future_marks,
    "releases: a lease ends while the VM runs": _check("lease_over", _lease_while_it_runs),
    "releases: a lease begins anew at each look": _check("lease_over", _lease_from_now),
    "releases: a lost node isn't waited for": _check("node_lost", _at_once),
    "releases: a node that is gone isn't away": _away(lambda situation, why: why if situation.node is not None else ""),
    "releases: a cordoned node isn't away": _away(lambda situation, why: "" if why == "cordoned" else why),
    "releases: asked for while the VM runs": _check("release_requested", _asked_while_it_runs),
    "releases: tainted devices are kept": _check("device_tainted", lambda situation: None),
    "releases: a changed template doesn't matter": _check("template_changed", lambda situation: None),
    "releases: a VMI that ends doesn't use its claim": _check("not_used", _unused_while_it_ends),
    "releases: keeping ends while the VMI starts": _check("keeping_ended", _ended_though_in_use),
    "loop: releases by what the stores say": lambda: mock.patch.object(
        gathering.KeeperStores, "certain_inputs", _uncertain
    ),
    "loop: nothing is looked at again in time": _never_again,
    "loop: a start forgets claims whose VM is gone": _keys_of_vms_only,
    "loop: changed nodes concern nobody": _unaffected(Node),
    "loop: changed taints concern nobody": _unaffected(DeviceTaintRule),
    "loop: changed claims concern nobody": _unaffected(ResourceClaim),
}
