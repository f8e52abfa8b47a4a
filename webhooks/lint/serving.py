"""Which drivers may serve a request of a launcher pod, and what is missing for an answer (K-11, decision 0012). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from virt_dra.api import names
from virt_dra.api.core_v1 import PodResourceClaim
from virt_dra.api.go_text import visible
from virt_dra.api.integration.known_drivers import DRIVER_OF_CLASS
from virt_dra.api.integration.paths import ClaimRequestPair
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance, VirtualMachineInstanceSpec
from virt_dra.api.meta import parse_time
from virt_dra.api.resource_v1 import DeviceClass
from webhooks.knowledge import Missing, Serving
from webhooks.lint.finding import Settings
from webhooks.lint.named_driver import named_driver
from webhooks.lint.subject import Linted, NamedClaim, Wish
from webhooks.lint.world import CLASSES, SLICES, World
from webhooks.selectors.answers import Evaluator

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


def serving(
    world: World,
    settings: Settings,
    namespace: str,
    claims: Iterable[PodResourceClaim],
    pairs: Iterable[ClaimRequestPair],
    evaluator: Evaluator | None = None,
) -> Mapping[ClaimRequestPair, Serving]:
    """The drivers of each pair, as far as they are known.

    ``evaluator``: as for :class:`Linted`.
    ``pairs`` whose claim entry has no single source, or comes after the settings' limit, are left out.
    """
    spec = VirtualMachineInstanceSpec(resource_claims=tuple(claims))
    linted = Linted(VirtualMachineInstance(spec=spec), namespace, world, settings, evaluator)
    named = {claim.entry: claim for claim in reversed(linted.claims)}
    return {pair: _of(linted, named[pair.claim], pair.request) for pair in pairs if pair.claim in named}


def _of(linted: Linted, claim: NamedClaim, request: str) -> Serving:
    if claim.spec is None:
        # The API server refuses a pod with a name that no object can have, and says so better.
        known = claim.kind in linted.world.known and not names.dns1123_subdomain(claim.name)
        by = f'resourceClaims entry "{visible(claim.entry)[:63]}" of the VM'
        return Serving(complete=False, missing=(Missing(claim.kind, claim.name, linted.namespace, by),) if known else ())
    drivers = linted.drivers(claim, request)
    if claim.allocated is not None:
        return Serving(drivers.names, not drivers.cut)
    wishes = claim.wishes_of(request)
    missing = tuple(dict.fromkeys(each for wish in wishes for each in _missing_class(linted, claim, wish)))
    undecided = None if drivers.names or missing or not wishes or _cut_short(linted, wishes) else _newest(linted, claim, wishes)
    return Serving(drivers.names, not drivers.cut, missing, undecided)


def _missing_class(linted: Linted, claim: NamedClaim, wish: Wish) -> Iterable[Missing]:
    """The wish's DeviceClass, unless the driver is known without it."""
    if linted.class_of(wish) is not None or CLASSES not in linted.world.known or _named(linted, wish) is not None:
        return
    if not names.dns1123_subdomain(wish.class_name):  # no class of a name that isn't valid can ever exist
        yield Missing(DeviceClass.KIND, wish.class_name, "", f'request "{wish.name}" of {claim} in namespace {linted.namespace}')


def _named(linted: Linted, wish: Wish) -> str | None:
    return DRIVER_OF_CLASS.get(wish.class_name) or named_driver(text for _, text in linted.expressions(wish))


def _cut_short(linted: Linted, wishes: Iterable[Wish]) -> bool:
    """True if no driver is known only because of a limit of virt-dra's own, which must not keep a VM from starting."""
    if SLICES not in linted.world.known:
        return True
    return any(linted.drivers_matching(wish).cut for wish in wishes)


def _newest(linted: Linted, claim: NamedClaim, wishes: Iterable[Wish]) -> datetime:
    """The creation time of the newest object that says what the request asks for: its claim or template, or a DeviceClass."""
    classes = (linted.class_of(wish) for wish in wishes)
    texts = (claim.created, *(each.metadata.creation_timestamp for each in classes if each is not None))
    return max(_time(text) for text in texts)


def _time(text: str | None) -> datetime:
    try:
        return parse_time(text) if text else _LONG_AGO
    except (ValueError, OverflowError):
        return _LONG_AGO
