"""Claims to what the search has to fill, with every pre-check (A-6, A-9), and which devices can serve a request at all
(A-8, A-17)."""

from __future__ import annotations

from dataclasses import dataclass, field

from devtools.allocator.plain.errors import NULL, Fatal, NodeOnly
from devtools.allocator.plain.facts import Candidate, Facts
from devtools.allocator.plain.pools import INCOMPLETE, INVALID, Pool, selects_device
from virt_dra.allocator.features import consumption
from virt_dra.allocator.features.consumption import Consumption, Fault
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import DeviceClass, DeviceRequest, DeviceSubRequest, ExactDeviceRequest, ResourceClaim
from virt_dra.cel import CompileError, EvaluationError, compile_selector, device_input

LIMIT = 32


@dataclass(eq=False)
class Wanted:
    """An exact request, or an alternative."""

    claim: ResourceClaim
    claim_index: int
    name: str
    parent: str | None
    of: ExactDeviceRequest | DeviceSubRequest
    device_class: DeviceClass
    admin: bool
    count: int = 0
    everything: list[Candidate] | None = None
    """Mode All: exactly these."""
    selectable: dict[Candidate, bool] = field(default_factory=dict)
    taken: dict[Candidate, Consumption | None] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        return self.name if self.parent is None else f"{self.parent}/{self.name}"

    @property
    def subject(self) -> str:
        return f"claim {self.claim.key}, request {self.name}"

    def covered(self, requests: tuple[str, ...]) -> bool:
        """A-15.1."""
        return not requests or self.full_name in requests or (self.parent is not None and self.parent in requests)


@dataclass(eq=False)
class Entry:
    """One of the claim's requests."""

    name: str
    prioritized: bool
    alternatives: list[Wanted]


def read_claims(facts: Facts, pools: list[Pool]) -> list[list[Entry]]:
    return [_claim(facts, pools, index, claim) for index, claim in enumerate(facts.claims)]


def _claim(facts: Facts, pools: list[Pool], index: int, claim: ResourceClaim) -> list[Entry]:
    entries = []
    accounted = 0
    for request in claim.spec.devices.requests:
        entry = _entry(facts, pools, index, claim, request)
        least = min(wanted.count for wanted in entry.alternatives)
        if least > LIMIT - accounted:
            raise Fatal(
                f"claim {claim.key}, request {request.name}: adding {least} "
                f"devices exceeds the claim limit of {LIMIT}, "
                f"with {accounted} already accounted for"
            )
        accounted += least
        entries.append(entry)
    for i, constraint in enumerate(claim.spec.devices.constraints):
        if constraint.match_attribute is None and constraint.distinct_attribute is None:
            raise Fatal(f"claim {claim.key}, constraint #{i}: empty constraint (unsupported constraint type?)")
    return entries


def _entry(facts: Facts, pools: list[Pool], index: int, claim: ResourceClaim, request: DeviceRequest) -> Entry:
    subs = request.first_available
    if subs and not facts.on("PrioritizedList"):
        raise Fatal(
            f"claim {claim.key}, request {request.name}: has subrequests, but "
            "the DRAPrioritizedList feature is disabled"
        )
    if not facts.on("ConsumableCapacity"):
        wanting = [("request", request.name, request.exactly.capacity)] if request.exactly is not None else []
        for word, name, capacity in (*wanting, *(("subrequest", sub.name, sub.capacity) for sub in subs)):
            if capacity is not None:
                raise Fatal(
                    f"claim {claim.key}, {word} {name}: has capacity requests, but "
                    "the DRAConsumableCapacity feature is disabled"
                )
    if subs:
        return Entry(
            request.name, True, [_wanted(facts, pools, index, claim, sub.name, request.name, sub) for sub in subs]
        )
    if request.exactly is None:
        raise Fatal(
            f"claim {claim.key}, request {request.name}: unknown request type" if facts.fixed("AC-12") else NULL
        )
    return Entry(request.name, False, [_wanted(facts, pools, index, claim, request.name, None, request.exactly)])


def _wanted(
    facts: Facts,
    pools: list[Pool],
    index: int,
    claim: ResourceClaim,
    name: str,
    parent: str | None,
    of: ExactDeviceRequest | DeviceSubRequest,
) -> Wanted:
    subject = f"claim {claim.key}, request {name}"
    if of.derived_attributes and not facts.on("DerivedAttributes"):
        raise Fatal(f"{subject}: cannot handle request with derived attributes, the feature is disabled")
    for i, selector in enumerate(of.selectors):
        if selector.cel is None:
            raise Fatal(f"{subject}, selector #{i}: CEL expression empty (unsupported selector type?)")
    admin = of.admin_access if isinstance(of, ExactDeviceRequest) else None
    if admin is not None and not facts.on("AdminAccess"):
        raise Fatal(f"{subject}: admin access is requested, but the feature is disabled")
    if not of.device_class_name:
        raise Fatal(f"{subject}: missing device class name (unsupported request type?)")
    device_class = facts.classes.get(of.device_class_name)
    if device_class is None:
        missing = f'deviceclass.resource.k8s.io "{of.device_class_name}" not found'
        raise Fatal(f"{subject}: could not retrieve device class {of.device_class_name}: {missing}")
    wanted = Wanted(claim, index, name, parent, of, device_class, bool(admin), of.count)
    if of.allocation_mode == "All":
        wanted.everything = _everything(facts, pools, wanted)
        wanted.count = len(wanted.everything)
    elif of.allocation_mode != "ExactCount":
        raise Fatal(f"{subject}: unsupported count mode {of.allocation_mode}")
    return wanted


def _everything(facts: Facts, pools: list[Pool], wanted: Wanted) -> list[Candidate]:
    """A-9.1, A-9.2."""
    candidates = []
    for pool in pools:
        if pool.problem in (INCOMPLETE, INVALID):
            text = (
                f"{wanted.subject}: asks for all devices, but resource pool {pool.driver}/{pool.name} is {pool.problem}"
            )
            raise NodeOnly(text) if facts.fixed("AC-9") else Fatal(text)
        for candidate in pool.targeting:
            if selectable(facts, wanted, candidate) and (
                not facts.on("ConsumableCapacity") or taken(facts, wanted, candidate) is not None
            ):
                candidates.append(candidate)
    return candidates


def selectable(facts: Facts, wanted: Wanted, candidate: Candidate) -> bool:
    """A-8."""
    if candidate not in wanted.selectable:
        wanted.selectable[candidate] = _selectable(facts, wanted, candidate)
    return wanted.selectable[candidate]


def _selectable(facts: Facts, wanted: Wanted, candidate: Candidate) -> bool:
    if candidate.device.binding_conditions and not facts.on("DeviceBindingAndStatus"):
        return False
    owners = (
        (f"class {wanted.device_class.name}", wanted.device_class.spec.selectors),
        (f"claim {wanted.claim.key}", wanted.of.selectors),
    )
    for owner, selectors in owners:
        for i, selector in enumerate(selectors):
            if selector.cel is None:
                raise Fatal(f"{owner}: selector #{i}: CEL expression empty (unsupported selector type?)")
            try:
                if not compile_selector(selector.cel.expression).matches(
                    device_input(candidate.slice.spec.driver, candidate.device)
                ):
                    return False
            except CompileError as error:
                raise Fatal(f"{owner}: selector #{i}: CEL compile error: {error}") from None
            except EvaluationError as error:
                raise Fatal(f"{owner}: selector #{i} on device {candidate.shown}: CEL runtime error: {error}") from None
    if not candidate.slice.spec.per_device_node_selection:
        return True
    device = candidate.device
    terms = (
        ()
        if device.node_selector is None or device.node_name or device.all_nodes
        else device.node_selector.node_selector_terms
    )
    if len(terms) > 1 and facts.fixed("AC-21a"):
        return False
    return selects_device(facts, device)


def taken(facts: Facts, wanted: Wanted, candidate: Candidate) -> Consumption | None:
    """What the request takes of an unused device; None where its policies or its size refuse that (A-17.1 to
    A-17.6)."""
    if candidate not in wanted.taken:
        wanted.taken[candidate] = _taken(facts, wanted, candidate)
    return wanted.taken[candidate]


def _taken(facts: Facts, wanted: Wanted, candidate: Candidate) -> Consumption | None:
    wish: dict[str, Quantity] = dict(wanted.of.capacity.requests) if wanted.of.capacity is not None else {}
    if not facts.fixed("AC-13") and not wish.keys() <= candidate.device.capacity.keys():
        return None
    driver = candidate.slice.spec.driver
    if not facts.fixed("AC-13"):  # literally: as if every name that isn't asked for were someone else's
        driver = "no.such.driver"
    consumed = consumption.resolve(
        driver, candidate.device.capacity, wish, fractional=facts.on("FractionalCapacityRange")
    )
    if isinstance(consumed, Fault):
        if consumed.text.endswith(", but no min") and not facts.fixed("AC-23"):
            _without_min(facts, wish.get(consumed.text.split('"')[1]))
            return None
        shown = candidate.device.name if wanted.of.allocation_mode == "All" else candidate.shown
        raise Fatal(f"{wanted.subject}: checking capacity for device {shown}: {consumed.text}")
    return consumed if isinstance(consumed, Consumption) else None


def _without_min(facts: Facts, amount: Quantity | None) -> None:
    """AC-23 not corrected: kills the reference, unless it can't write the amount in thousandths, which looks like a
    violation to it."""
    exact = amount is None or (amount.nano % 10**6 == 0 and amount.nano // 10**6 < 2**63)
    if exact or not facts.on("FractionalCapacityRange"):
        raise Fatal(NULL)
