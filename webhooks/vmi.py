"""Admission of VirtualMachineInstances and VirtualMachines: KubeVirt's rules K-2, as pure functions.

    >>> from virt_dra.api.kubevirt_versions import NEWEST, Gates
    >>> from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
    >>> review(VirtualMachineInstance(), Gates.for_version(NEWEST)).allowed
    True

The rules of each release and their order are in the table :data:`RULE_SETS`; decisions are in
docs/decisions/0006-admission.md. No other object is known here: :mod:`webhooks.lint` checks whether a claim, template
or request exists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache

from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import BEFORE_DRA, MAIN, V1_6_0, V1_8_0, V1_8_3, V1_9_0, Gates, KubeVirtVersion
from webhooks.rules import features, interfaces, network_sources, networks, resource_claims
from webhooks.rules.devices import DeviceRules, device_name_required, gpus_of_1_6
from webhooks.rules.reviewed_spec import ReviewedSpec, Rule, VmObject
from webhooks.rules.silence import silenced
from webhooks.rules.updates import changed_devices
from webhooks.rules.warnings import WARNERS
from webhooks.stored import as_validated
from webhooks.verdict import REQUIRED, AdmissionCause, AdmissionCauseType, Verdict

__all__ = ["AdmissionCause", "AdmissionCauseType", "Verdict", "review"]

_NETWORKS: tuple[Rule, ...] = (
    interfaces.discontinued_bindings,
    network_sources.one_default,
    network_sources.one_source,
    interfaces.bindings,
    network_sources.network_names,
    networks.claim_networks,
    network_sources.network_interfaces,
    network_sources.interface_names,
    interfaces.fields,
)
"""In a release without networks from claims their claims were dropped (:mod:`webhooks.stored`), so ``claim_networks``
finds nothing."""
_METADATA: tuple[Rule, ...] = (features.reserved_labels, features.sidecars)
_AROUND_DRA: tuple[Rule, ...] = (features.one_ramfb, features.host_devices_gate, *_METADATA)
_DRA_1_9: tuple[Rule, ...] = (*_NETWORKS, resource_claims.entries, DeviceRules(), features.reserved_overhead)

RULE_SETS: tuple[tuple[KubeVirtVersion, tuple[Rule, ...]], ...] = (
    (MAIN, (*_DRA_1_9, features.one_ramfb_of_main, features.host_devices_gate, *_METADATA)),
    (V1_9_0, (*_DRA_1_9, *_AROUND_DRA)),  # K-2.3 to K-2.26; networks come first
    (
        V1_8_3,  # K-2.28
        (
            *_NETWORKS,
            resource_claims.unique_names,
            DeviceRules(across=("GPUs", "HostDevices")),
            features.reserved_overhead,
            *_AROUND_DRA,
        ),
    ),
    (
        V1_8_0,  # K-2.29
        (
            *_NETWORKS,
            resource_claims.unique_names,
            DeviceRules(refuse_mixed_gpus=False, original_indices=False, across=()),
            features.reserved_overhead,
            *_AROUND_DRA,
        ),
    ),
    (V1_6_0, (features.architecture, *_NETWORKS, gpus_of_1_6, *_AROUND_DRA)),  # K-2.30
    (BEFORE_DRA, (device_name_required, features.architecture, *_NETWORKS, *_AROUND_DRA)),  # K-2.31
)
"""The rules of each release, newest first: a version has those of the first row that is not newer."""


@lru_cache(maxsize=64)
def rules_for(version: KubeVirtVersion) -> tuple[Rule, ...]:
    """The rules of a KubeVirt release, in its order."""
    return next(rules for since, rules in RULE_SETS if version >= since)


def review(
    subject: VmObject,
    gates: Gates,
    old: VmObject | None = None,
    unwanted_warnings: Collection[str] = (),
    *,
    outsider: bool = False,
) -> Verdict:
    """The verdict of KubeVirt ``gates.version`` with these gates: all causes, in KubeVirt's order.

    The object is checked as KubeVirt's validators get it (:mod:`webhooks.stored`), whether or not its mutator has
    changed it already. Refusals of the API server before that are in :mod:`webhooks.admission`.

    Warnings carry their id, by which the object's annotation silences them (:mod:`webhooks.rules.silence`); those of
    ``unwanted_warnings`` are left out.

    ``old``: the object before an update. A VMI's claims and devices must not change (K-9.3), and nothing else is
    checked, so that gates that are now disabled don't block changes of a running VMI's metadata. A VM's template may
    change and is checked as on creation. A VM that is being deleted always passes, as in KubeVirt.

    ``outsider``: True if the request isn't from one of KubeVirt's accounts, so that it may not set KubeVirt's own
    labels (K-9.4).

    Raises ``TypeError`` when ``old`` is of another kind.
    """
    if old is not None and isinstance(old, VirtualMachine) is not isinstance(subject, VirtualMachine):
        raise TypeError(f"a {type(old).__name__} cannot become a {type(subject).__name__}")
    if isinstance(subject, VirtualMachineInstance) and isinstance(old, VirtualMachineInstance):
        return _verdict(changed_devices(subject, old))
    if old is not None and subject.metadata.deletion_timestamp is not None:
        return Verdict(allowed=True)
    if isinstance(subject, VirtualMachine) and not subject.spec.given("template"):
        return _verdict(iter((AdmissionCause(REQUIRED, "missing virtual machine template.", "spec.template"),)))
    validated = as_validated(subject, gates.version)
    reviewed = ReviewedSpec.from_vm(validated, gates, outsider)
    causes = (cause for rule in rules_for(gates.version) for cause in rule(reviewed))
    given = reviewed if validated is subject else ReviewedSpec.from_vm(subject, gates)
    return _verdict(causes, tuple(_warnings(given, silenced(subject).union(unwanted_warnings))))


def _warnings(given: ReviewedSpec, unwanted: Collection[str]) -> Iterator[str]:
    for id, warn in WARNERS.items():
        if id not in unwanted:
            for warned in warn(given):
                yield f"{warned.field}: [{id}] {warned.message}"


def _verdict(causes: Iterator[AdmissionCause], warnings: tuple[str, ...] = ()) -> Verdict:
    listed = tuple(causes)
    return Verdict(allowed=not listed, causes=listed, warnings=warnings)
