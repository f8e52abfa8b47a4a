"""The drivers that may serve a request of a launcher pod, or the objects that are missing to know them (K-11, decision
0012). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from virt_dra.api import names
from virt_dra.api.core_v1 import PodResourceClaim
from virt_dra.api.go_text import visible
from virt_dra.api.integration.paths import ClaimRequestPair
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance, VirtualMachineInstanceSpec
from virt_dra.api.meta import parse_time
from virt_dra.api.resource_v1 import DeviceClass
from virt_dra.matching.slice_answers import SelectorEvaluator
from webhooks.knowledge import MissingObject, RequestDrivers
from webhooks.lint.finding import LintSettings
from webhooks.lint.inputs import CLASSES, SLICES, LintInputs
from webhooks.lint.linted import Linted, NamedClaim, RequestOption

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


def request_drivers(
    inputs: LintInputs,
    settings: LintSettings,
    namespace: str,
    claims: Iterable[PodResourceClaim],
    pairs: Iterable[ClaimRequestPair],
    evaluator: SelectorEvaluator | None = None,
) -> Mapping[ClaimRequestPair, RequestDrivers]:
    """The drivers of each pair, as far as they are known. ``evaluator``: as for :class:`Linted`.

    Pairs whose claim entry doesn't have exactly one source, or is beyond the settings' limit, are left out.
    """
    spec = VirtualMachineInstanceSpec(resource_claims=tuple(claims))
    linted = Linted(VirtualMachineInstance(spec=spec), namespace, inputs, settings, evaluator)
    named = {claim.entry: claim for claim in reversed(linted.claims)}
    return {pair: _of(linted, named[pair.claim], pair.request) for pair in pairs if pair.claim in named}


def _of(linted: Linted, claim: NamedClaim, request: str) -> RequestDrivers:
    if claim.spec is None:
        # For a name that no object can have, the API server refuses the pod with a better message.
        is_missing = claim.kind in linted.inputs.known_kinds and not names.dns1123_subdomain(claim.name)
        by = f'resourceClaims entry "{visible(claim.entry)[:63]}" of the VM'
        missing_claim = MissingObject(claim.kind, claim.name, linted.namespace, by)
        return RequestDrivers(complete=False, missing=(missing_claim,) if is_missing else ())
    drivers = linted.drivers(claim, request)
    if claim.allocated is not None:
        return RequestDrivers(drivers.names, not drivers.incomplete)
    options = claim.options_of(request)
    missing = tuple(dict.fromkeys(obj for option in options for obj in _missing_class(linted, claim, option)))
    # Where a limit of virt-dra ended the search, an unknown driver must not keep a VM from starting.
    cut_short = SLICES not in linted.inputs.known_kinds or any(linted.drivers_matching(o).incomplete for o in options)
    is_decided = drivers.names or missing or not options or cut_short
    undecided = None if is_decided else _newest(linted, claim, options)
    return RequestDrivers(drivers.names, not drivers.incomplete, missing, undecided)


def _missing_class(linted: Linted, claim: NamedClaim, option: RequestOption) -> Iterable[MissingObject]:
    """The option's DeviceClass if it doesn't exist, unless the driver is known without it."""
    is_known = linted.class_of(option) is not None or CLASSES not in linted.inputs.known_kinds
    if is_known or linted.named_driver(option) is not None:
        return
    if not names.dns1123_subdomain(option.class_name):  # a class with an invalid name can never exist
        by = f'request "{option.name}" of {claim} in namespace {linted.namespace}'
        yield MissingObject(DeviceClass.KIND, option.class_name, "", by)


def _newest(linted: Linted, claim: NamedClaim, options: Iterable[RequestOption]) -> datetime:
    """The creation time of the newest object that defines the request: its claim or template, or a DeviceClass."""
    classes = (linted.class_of(option) for option in options)
    of_classes = (device_class.metadata.creation_timestamp for device_class in classes if device_class is not None)
    return max(map(_time, (claim.created, *of_classes)))


def _time(text: str | None) -> datetime:
    try:
        return parse_time(text) if text else _LONG_AGO
    except (ValueError, OverflowError):
        return _LONG_AGO
