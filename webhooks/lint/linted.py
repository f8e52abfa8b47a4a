"""The input of a check: a VM or VMI, and the objects that it names, looked up once."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Final

from virt_dra.api.core_v1 import PodResourceClaim
from virt_dra.api.instancetypes.expansion import Expansion, expand
from virt_dra.api.integration.attribute_keys import Need
from virt_dra.api.integration.known_drivers import DRIVER_OF_CLASS
from virt_dra.api.integration.paths import METADATA_SHIM, InvalidPathChoice, PathDecision, chosen_path, decide
from virt_dra.api.keeping.claims import with_templates
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceSpec
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import ObjectT
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION
from virt_dra.api.profiles.lines import AdmittedVm, was_admitted
from virt_dra.api.resource_v1 import (
    ALL,
    DeviceClass,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaimSpec,
)
from virt_dra.api.wire import Json
from virt_dra.cel import Work
from virt_dra.matching.evaluating import ImmediateEvaluator
from virt_dra.matching.slice_answers import SelectorEvaluator
from webhooks.lint.device_set import DeviceSet
from webhooks.lint.finding import FaultPlace, LintIssue, LintSettings
from webhooks.lint.inputs import CLAIMS, SLICES, TEMPLATES, LintInputs
from webhooks.lint.inventory import Match, MatchingDrivers
from webhooks.lint.named_driver import named_driver
from webhooks.rules.reviewed_spec import DEVICE_LISTS, ReviewedSpec, VmObject

_LISTS: Final[Mapping[str, Callable[[VirtualMachineInstanceSpec], Sequence[object]]]] = {
    "resourceClaims": lambda spec: spec.resource_claims,
    "networks": lambda spec: spec.networks,
    "domain.devices.interfaces": lambda spec: spec.domain.devices.interfaces,
    **{kind.field: kind.devices for kind in DEVICE_LISTS},
}
"""The lists to which a VM's line adds entries, after those that are written, by their paths below the spec."""
_ENTRY: Final = re.compile(rf"(?P<list>{'|'.join(map(re.escape, _LISTS))})\[(?P<index>\d+)\]")


@dataclass(frozen=True, eq=False)
class RequestOption:
    """A request without alternatives, or one alternative of a request.

    ``path``: in the claim's object; ``name``: as allocation results have it, ``gpu`` or ``gpu/big``.
    """

    path: str
    name: str
    asked: ExactDeviceRequest | DeviceSubRequest

    @property
    def request(self) -> str:
        return self.name.partition("/")[0]

    @property
    def class_name(self) -> str:
        return self.asked.device_class_name

    @property
    def all_devices(self) -> bool:
        return self.asked.allocation_mode == ALL

    @property
    def count(self) -> int:
        """The requested number of devices, by default one."""
        return self.asked.count or 1

    @property
    def admin_access(self) -> bool:
        return isinstance(self.asked, ExactDeviceRequest) and bool(self.asked.admin_access)


@dataclass(frozen=True, eq=False)
class NamedClaim:
    """An entry of ``spec.resourceClaims`` and the object that it names. ``spec``: None if the object is missing."""

    entry: str
    field: str
    kind: str
    namespace: str
    name: str
    spec: ResourceClaimSpec | None
    allocated: Sequence[DeviceRequestAllocationResult] | None
    """The results of an allocated claim."""
    created: str | None = None
    """The object's creationTimestamp."""

    @property
    def direct(self) -> bool:
        return self.kind == CLAIMS

    @property
    def root(self) -> str:
        """The path of the claim's spec in the object."""
        return "spec" if self.direct else "spec.spec"

    def __str__(self) -> str:
        return f'{self.kind} "{self.name}"'

    def place(self, field: str) -> FaultPlace:
        """A field of the object."""
        return FaultPlace(self.kind, self.namespace, self.name, field)

    def issue(self, field: str, message: str) -> LintIssue:
        """An issue whose fault is in a field of the object."""
        return LintIssue(self.field, message, at=self.place(field))

    def results_for(self, request: str) -> list[DeviceRequestAllocationResult]:
        """What is allocated for a request, or for an alternative of it."""
        prefix = f"{request}/"
        results = self.allocated or ()
        return [result for result in results if result.request == request or result.request.startswith(prefix)]

    def request(self, name: str) -> DeviceRequest | None:
        requests = self.spec.devices.requests if self.spec else ()
        return next((request for request in requests if request.name == name), None)

    @cached_property
    def options(self) -> tuple[RequestOption, ...]:
        """The options of all requests."""
        options: list[RequestOption] = []
        for index, request in enumerate(self.spec.devices.requests if self.spec else ()):
            path = f"{self.root}.devices.requests[{index}]"
            if request.exactly is not None:
                options.append(RequestOption(f"{path}.exactly", request.name, request.exactly))
            options += [
                RequestOption(f"{path}.firstAvailable[{position}]", f"{request.name}/{alternative.name}", alternative)
                for position, alternative in enumerate(request.first_available)
            ]
        return tuple(options)

    @cached_property
    def _by_request(self) -> Mapping[str, tuple[RequestOption, ...]]:
        by_request: dict[str, list[RequestOption]] = {}
        for option in self.options:
            by_request.setdefault(option.request, []).append(option)
        return {name: tuple(options) for name, options in by_request.items()}

    def options_of(self, name: str) -> tuple[RequestOption, ...]:
        """The options of a request, or the one option named ``request/alternative``."""
        request, slash, _ = name.partition("/")
        options = self._by_request.get(request, ())
        return tuple(option for option in options if option.name == name) if slash else options


@dataclass(frozen=True, eq=False)
class ClaimUse:
    """A device (or network) of the VM that comes from a claim. ``claim``: None if no entry has that name."""

    kind: str
    field: str
    name: str
    request_field: str
    request_name: str
    claim: NamedClaim | None
    needs: Need = "any"

    @property
    def request(self) -> DeviceRequest | None:
        return self.claim.request(self.request_name) if self.claim else None

    @property
    def options(self) -> tuple[RequestOption, ...]:
        return self.claim.options_of(self.request_name) if self.claim else ()


@dataclass(frozen=True, eq=False)
class Linted:
    """One VM or VMI, with everything that checks derive from it."""

    object: VmObject
    namespace: str
    inputs: LintInputs
    settings: LintSettings = field(default_factory=LintSettings)
    evaluator: SelectorEvaluator | None = None
    """Evaluates selectors; None: this process does, within the limits of the settings."""
    _matches: dict[RequestOption, Match] = field(default_factory=dict, init=False, repr=False)
    _served: dict[RequestOption, MatchingDrivers] = field(default_factory=dict, init=False, repr=False)
    _candidates: dict[ClaimUse, DeviceSet] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def reviewed(self) -> ReviewedSpec:
        """The spec as the admission rules get it."""
        return ReviewedSpec.from_vm(self.expanded, self.inputs.configuration.gates)

    @cached_property
    def expansion(self) -> Expansion | None:
        """The VM with its instancetype and preference applied; None for a VMI."""
        vm = self.object
        return expand(vm, self.inputs.instancetypes, self.namespace) if isinstance(vm, VirtualMachine) else None

    @cached_property
    def admitted(self) -> AdmittedVm:
        """The object with the devices of its line, and with templates in place of claims that the keeper makes for
        it."""
        vm = self.object if self.expansion is None else self.expansion.vm
        if was_admitted(vm) and not self.settings.at_admission:
            return AdmittedVm(vm)
        if isinstance(vm, VirtualMachineInstance):
            vm = with_templates(vm)
        return self.inputs.lines(self.namespace).admitted(vm)

    @property
    def expanded(self) -> VmObject:
        """The object as KubeVirt validates it; of a VM the VMI, as it is admitted."""
        return self.admitted.vm

    def written_field(self, path: str) -> str:
        """The field that a user can change: of an entry that the VM's line adds, the line."""
        root = f"{self.reviewed.root}."
        entry = _ENTRY.match(path.removeprefix(root)) if path.startswith(root) else None
        if entry is None or not self.admitted.templates:
            return path
        before = self.object if self.expansion is None else self.expansion.vm
        spec = before.spec.template.spec if isinstance(before, VirtualMachine) else before.spec
        if int(entry["index"]) < len(_LISTS[entry["list"]](spec)):
            return path
        return f"{self.reviewed.metadata}.annotations[{DEVICES_ANNOTATION}]"

    @cached_property
    def runs(self) -> bool:
        """True if the guest runs, by the status of the stored VMI. A new VMI's status proves nothing (K-9.5), and at
        admission each object is new or changed."""
        if self.settings.at_admission:
            return False
        vm = self.object
        key = f"{self.namespace}/{vm.name}"
        vmi = self.inputs.model.by_key(VirtualMachineInstance).get(key) if isinstance(vm, VirtualMachine) else vm
        return vmi is not None and bool(vmi.metadata.uid) and vmi.status.phase == "Running"

    @property
    def version(self) -> KubeVirtVersion:
        return self.inputs.configuration.version

    def path(self, name: str) -> str:
        return self.reviewed.path(name)

    @cached_property
    def claims(self) -> tuple[NamedClaim, ...]:
        """The entries with exactly one source, as the API server requires (K-3.2)."""
        claims: list[NamedClaim] = []
        for index, entry in enumerate(self.reviewed.spec.resource_claims[: self.settings.max_entries]):
            place = self.path(f"resourceClaims[{index}]")
            template, claim = entry.resource_claim_template_name, entry.resource_claim_name
            if template and not claim:
                made = (item for item in self.admitted.templates if item.name == template)  # for the VM's line
                named = self.inputs.template(self.namespace, template) or next(made, None)
                spec, created = (named.spec.spec, named.metadata.creation_timestamp) if named else (None, None)
                field, kind, allocated = f"{place}.resourceClaimTemplateName", TEMPLATES, None
            elif claim and not template:
                direct = self.inputs.claim(self.namespace, claim)
                allocation = direct.status.allocation if direct else None
                allocated = allocation.devices.results if allocation else None
                spec, created = (direct.spec, direct.metadata.creation_timestamp) if direct else (None, None)
                field, kind = f"{place}.resourceClaimName", CLAIMS
            else:
                continue
            name = template or claim or ""
            claims.append(NamedClaim(entry.name, field, kind, self.namespace, name, spec, allocated, created))
        most = self.settings.max_options
        sums = accumulate(len(claim.options) for claim in claims)
        return tuple(claim for claim, sum_ in zip(claims, sums, strict=True) if most is None or sum_ <= most)

    @cached_property
    def uses(self) -> tuple[ClaimUse, ...]:
        """The uses of claims, in the order gpus, hostDevices, networks, without incomplete ones, which admission
        refuses (K-2.14)."""
        by_entry = {claim.entry: claim for claim in reversed(self.claims)}
        spec = self.reviewed.spec
        uses: list[ClaimUse] = []
        for kind in DEVICE_LISTS:
            for index, device in enumerate(kind.devices(spec)):
                if device.is_dra and device.claim_name and device.request_name:
                    place, claim = self.path(f"{kind.field}[{index}]"), by_entry.get(device.claim_name)
                    field = f"{place}.requestName"
                    uses.append(ClaimUse(kind.path, place, device.name, field, device.request_name, claim))
        interfaces = {interface.name: interface for interface in reversed(spec.domain.devices.interfaces)}
        for index, network in enumerate(spec.networks):
            reference, interface = network.resource_claim, interfaces.get(network.name)
            if reference is not None and reference.claim_name and reference.request_name:
                place, claim = self.path(f"networks[{index}]"), by_entry.get(reference.claim_name)
                field, request = f"{place}.resourceClaim.requestName", reference.request_name
                plugin = interface is not None and interface.sriov is None and interface.binding is not None
                needs: Need = "none" if plugin else "pci"
                uses.append(ClaimUse("networks", place, network.name, field, request, claim, needs))
        return tuple(uses[: self.settings.max_entries])

    def all_of(self, kind: type[ObjectT]) -> Collection[ObjectT]:
        """All objects of a kind, in order of their names except at admission: there, sorting after each change would
        cost the more, the larger the cluster is."""
        model = self.inputs.model
        return model.by_key(kind).values() if self.settings.at_admission else model.of(kind)

    def class_of(self, option: RequestOption) -> DeviceClass | None:
        return self.inputs.model.classes.get(option.class_name)

    def selector_place(self, claim: NamedClaim, option: RequestOption, position: int) -> FaultPlace:
        """The place of the selector that :meth:`expressions` has at a position."""
        device_class = self.class_of(option)
        of_class = [n for n, selector in enumerate(device_class.spec.selectors if device_class else ()) if selector.cel]
        if position < len(of_class):
            field = f"spec.selectors[{of_class[position]}].cel.expression"
            return FaultPlace(DeviceClass.KIND, "", option.class_name, field)
        own = [n for n, selector in enumerate(option.asked.selectors) if selector.cel]
        return claim.place(f"{option.path}.selectors[{own[position - len(of_class)]}].cel.expression")

    def expressions(self, option: RequestOption) -> tuple[tuple[str, str], ...]:
        """The selectors of an option, those of its class first: the place and text of each."""
        device_class = self.class_of(option)
        of_class = device_class.spec.selectors if device_class else ()
        places = ((f'DeviceClass "{option.class_name}" spec', of_class), (option.path, option.asked.selectors))
        return tuple(
            (f"{place}.selectors[{n}]", selector.cel.expression)
            for place, selectors in places
            for n, selector in enumerate(selectors)
            if selector.cel
        )

    def matching(self, option: RequestOption) -> Match | None:
        """The devices that match an option; None if its class or the slices aren't known."""
        if self.class_of(option) is None or SLICES not in self.inputs.known_kinds:
            return None
        if option not in self._matches:
            texts = [text for _, text in self.expressions(option)]
            limit = self.settings.max_devices
            self._matches[option] = self.inputs.inventory.matching(texts, limit, self._evaluator)
        return self._matches[option]

    @cached_property
    def _evaluator(self) -> SelectorEvaluator:
        return self.evaluator or ImmediateEvaluator(Work(self.settings.max_work))

    def drivers_matching(self, option: RequestOption) -> MatchingDrivers:
        """The drivers with a device that every selector of the option and its class matches. ``incomplete``: a limit
        ended it early."""
        if option not in self._served:
            texts = [text for _, text in self.expressions(option)]
            self._served[option] = self.inputs.inventory.drivers(texts, self._evaluator)
        return self._served[option]

    def named_driver(self, option: RequestOption) -> str | None:
        """The driver that the class or a selector of an option names, if any does."""
        return DRIVER_OF_CLASS.get(option.class_name) or named_driver(text for _, text in self.expressions(option))

    def drivers(self, claim: NamedClaim, request: str) -> MatchingDrivers:
        """The drivers that may serve a request: those of its allocated devices, else of the matching devices, else
        those that classes name. ``incomplete``: others may serve it, too."""
        if claim.allocated is not None:
            return MatchingDrivers(tuple(sorted({result.driver for result in claim.results_for(request)})))
        names: set[str] = set()
        options = claim.options_of(request)
        incomplete = not options
        for option in options:
            if self.class_of(option) is None or SLICES not in self.inputs.known_kinds:
                incomplete = True
                continue
            of_option = self.drivers_matching(option)
            names.update(of_option.names)
            incomplete = incomplete or of_option.incomplete
        if names:
            return MatchingDrivers(tuple(sorted(names)), incomplete)
        of_classes = [self.named_driver(option) for option in options]
        named = tuple(sorted({driver for driver in of_classes if driver is not None}))
        return MatchingDrivers(named, incomplete and (None in of_classes or not named))

    def shimmed(self, use: ClaimUse) -> bool:
        """True if virt-dra supplies the metadata of a use, whatever the driver publishes or writes (K-11.1)."""
        decision = self.path_of(use) if self.settings.pod_webhook else None
        return decision is not None and decision.path == METADATA_SHIM

    def path_of(self, use: ClaimUse) -> PathDecision | None:
        """The path that virt-dra's pod webhook would choose for a use; None if the claim isn't known or the annotation
        names no path."""
        claim = use.claim
        if claim is None:
            return None
        try:
            choice = chosen_path(self.reviewed.annotations)
        except InvalidPathChoice:
            return None
        source: Json = {"resourceClaimName" if claim.direct else "resourceClaimTemplateName": claim.name}
        entry = PodResourceClaim.from_wire({"name": claim.entry, **source})
        drivers, inputs = self.drivers(claim, use.request_name), self.inputs
        silent = frozenset[str]() if drivers.incomplete else inputs.silent
        return decide(entry, use.request_name, self.version, choice, drivers.names, inputs.writers, silent=silent)

    def candidates(self, use: ClaimUse) -> DeviceSet:
        """The devices that a use may get, as far as known: its allocated devices, else those that match."""
        if use not in self._candidates:
            claim = use.claim
            if claim is not None and claim.allocated is not None:
                results = claim.results_for(use.request_name)
                devices = (self.inputs.inventory.get(result.driver, result.pool, result.device) for result in results)
                self._candidates[use] = DeviceSet(tuple(device for device in devices if device is not None))
            else:
                matches = map(self.matching, use.options)
                self._candidates[use] = DeviceSet.union(match.set for match in matches if match is not None)
        return self._candidates[use]
