"""All checks in the order of their findings: of the object itself, of the objects that it names, of devices, of the
VM's later life."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from webhooks.lint.checks import (
    configuration,
    drivers,
    keeping,
    lifetime,
    manifests,
    nodes,
    objects,
    profiles,
    selection,
    shapes,
    versions,
    vm_alone,
)
from webhooks.lint.finding import DENIAL, RUNNING, START, WARNING, WRITTEN, LintCheck, LintStage, Severity
from webhooks.lint.linted import Linted
from webhooks.rules.warnings import WARNERS, Warner
from webhooks.verdict import FieldIssue

LENIENT: Final = "lenient"
"""A denial that is only a warning at admission."""
_WARNING_RULES: Final[Mapping[str, tuple[Severity | Literal["lenient"], LintStage, str]]] = MappingProxyType(
    {
        "unknown-field": (LENIENT, WRITTEN, "A field that does not exist."),
        "device-name-missing": (WARNING, RUNNING, "A device has no name."),
        "unchecked-host-device": (WARNING, START, "KubeVirt 1.6 and 1.7 don't check the claims of host devices."),
        "lost-request": (DENIAL, START, "KubeVirt before 1.8.3 keeps only one request of each claim."),
        "request-name": (DENIAL, START, "A request name that is invalid in the launcher pod."),
        "duplicate-device-name": (DENIAL, START, "Two devices of one kind have the same name."),
        "unused-claim": (WARNING, RUNNING, "A claim that no device uses still gets devices allocated."),
        "tag-without-effect": (WARNING, RUNNING, "KubeVirt doesn't pass this tag to the guest."),
    }
)
"""Severity, stage and title of the checks that are made of the admission rules' warnings, by id."""

UNREADABLE: Final = "unreadable-object"
UNRENDERED: Final = "unrendered-template"
UNKNOWN_FIELD: Final = "unknown-field"
INVALID: Final = "invalid-object"
OLD_VERSION: Final = "old-version"
SELECTOR_NOT_CHECKED: Final = "selector-not-checked"


def _check(
    id: str,
    severity: Severity | Literal["lenient"],
    title: str,
    find: Callable[[Linted], Iterator[FieldIssue]] | None = None,
    matters: LintStage = START,
    **options: Any,
) -> LintCheck:
    if severity == LENIENT:
        return LintCheck(id, DENIAL, title, find, lenient=True, matters=matters, **options)
    return LintCheck(id, severity, title, find, matters=matters, **options)


def _rule_check(id: str, warner: Warner) -> LintCheck:
    severity, stage, title = _WARNING_RULES[id]
    as_written = manifests.unknown_field if id == UNKNOWN_FIELD else None
    return _check(id, severity, title, vm_alone.warned(warner), stage, find_as_written=as_written)


_CHECKS: Final = (
    _check(UNREADABLE, DENIAL, "An object that isn't valid for its kind.", find_as_written=manifests.unreadable_object),
    _check(UNRENDERED, DENIAL, "A template that was not rendered.", find_as_written=manifests.unrendered_template),
    _check(
        OLD_VERSION,
        WARNING,
        "A version of resource.k8s.io before v1.",
        find_as_written=manifests.old_version,
        opt_in=True,
    ),
    _check(INVALID, DENIAL, "The API server refuses the object.", find_as_written=manifests.invalid_object),
    _check(
        "kubevirt-refuses", DENIAL, "KubeVirt's own admission refuses the object.", vm_alone.kubevirt_refuses, WRITTEN
    ),
    _check("reserved-label", LENIENT, "A label that only KubeVirt may set.", vm_alone.reserved_label, WRITTEN),
    _check("status-on-create", WARNING, "A new VMI has a status.", vm_alone.status_on_create, WRITTEN),
    _check(
        "integration-annotation",
        DENIAL,
        "An annotation of virt-dra with an invalid value.",
        vm_alone.integration_annotation,
    ),
    *(_rule_check(id, warner) for id, warner in WARNERS.items()),
    _check("feature-gate-off", DENIAL, "A feature gate that the VM needs is off.", versions.feature_gate_off, WRITTEN),
    _check("kubevirt-too-old", DENIAL, "This KubeVirt doesn't support devices from claims.", versions.kubevirt_too_old),
    _check(
        "metadata-path",
        WARNING,
        "KubeVirt 1.8.0 to 1.8.2 look for metadata in the wrong place.",
        versions.metadata_path,
    ),
    _check(
        "path-does-not-work",
        LENIENT,
        "The integration path that the VM asks for can't work.",
        versions.path_does_not_work,
    ),
    _check(
        "path-may-not-work",
        WARNING,
        "The integration path that the VM asks for may not work.",
        versions.path_may_not_work,
    ),
    _check(
        "no-integration-path",
        LENIENT,
        "Nothing brings the devices' addresses to this KubeVirt.",
        drivers.no_integration_path,
    ),
    _check(
        "direct-claim-unresolved",
        DENIAL,
        "KubeVirt 1.6 and 1.7 never find devices of direct claims.",
        versions.direct_claim_unresolved,
    ),
    _check(
        "instancetype-missing",
        LENIENT,
        "An instancetype or preference does not exist.",
        objects.instancetype_missing,
        WRITTEN,
    ),
    _check(
        "instancetype-not-checked",
        WARNING,
        "An instancetype or preference is not among the files.",
        objects.instancetype_not_checked,
        WRITTEN,
    ),
    _check("profile-line", DENIAL, "A line that asks for devices, and can't be read.", profiles.profile_line),
    _check("profile-missing", LENIENT, "A DeviceProfile does not exist.", profiles.profile_missing),
    _check(
        "profile-not-allowed", LENIENT, "A DeviceProfile that is for other namespaces.", profiles.profile_not_allowed
    ),
    _check(
        "profile-conflict",
        DENIAL,
        "A line of DeviceProfiles contradicts the VM's own entries.",
        profiles.profile_conflict,
    ),
    _check(
        "profile-line-ignored",
        WARNING,
        "A line that asks for devices where nobody reads it.",
        profiles.profile_line_ignored,
        WRITTEN,
        find_beside=profiles.instancetype_line_ignored,
    ),
    _check(
        "keep-limited", WARNING, "A KeepPolicy allows less than the VM asks to keep.", keeping.keep_limited, RUNNING
    ),
    _check(
        "keep-ignored",
        WARNING,
        "Keeping that is asked for where nobody hears it.",
        keeping.keep_ignored,
        WRITTEN,
        find_beside=keeping.instancetype_keep_ignored,
    ),
    _check("keeper-missing", DENIAL, "The cluster has no keeper for the VM's devices.", keeping.keeper_missing),
    _check(
        "kept-claim-clash",
        DENIAL,
        "The claim that the VM would keep has the name of another.",
        keeping.kept_claim_clash,
    ),
    _check("refused-object", DENIAL, "The API server refuses an object that the VM uses.", objects.refused_object),
    _check("template-missing", LENIENT, "A ResourceClaimTemplate does not exist.", objects.template_missing),
    _check("claim-missing", LENIENT, "A ResourceClaim does not exist.", objects.claim_missing),
    _check(
        "claim-not-listed", DENIAL, "A host device names a claim that the VM doesn't list.", objects.claim_not_listed
    ),
    _check("request-missing", LENIENT, "A request is not in the claim.", objects.request_missing),
    _check("class-missing", LENIENT, "A DeviceClass does not exist.", objects.class_missing),
    _check(
        "several-devices",
        LENIENT,
        "A request for several devices, of which a VM gets at most one.",
        shapes.several_devices,
    ),
    _check(
        "first-available",
        WARNING,
        "KubeVirt doesn't find the device of a request with alternatives.",
        shapes.first_available,
    ),
    _check("admin-access", LENIENT, "A request with admin access.", shapes.admin_access),
    _check("selector-error", LENIENT, "A selector that can't be evaluated.", selection.selector_error),
    _check(
        SELECTOR_NOT_CHECKED,
        WARNING,
        "Selectors could not be evaluated within the limits of one review.",
        selection.selector_not_checked,
        never_denies=True,
    ),
    _check(
        "selector-fails-on-device", WARNING, "A selector that fails on some device.", selection.selector_fails_on_device
    ),
    _check("no-matching-device", LENIENT, "No device in the cluster matches.", selection.no_matching_device),
    _check("not-enough-devices", LENIENT, "No node has enough devices.", selection.not_enough_devices),
    _check("not-enough-capacity", LENIENT, "No device has the requested capacity.", selection.not_enough_capacity),
    _check("devices-tainted", WARNING, "All devices that match are tainted.", selection.devices_tainted),
    _check(
        "no-usable-node",
        LENIENT,
        "No node matches nodeSelector and has devices for all requests.",
        nodes.no_usable_node,
    ),
    _check("not-a-vfio-device", LENIENT, "Devices that the driver reserves for containers.", drivers.not_a_vfio_device),
    _check(
        "vfio-config-missing", LENIENT, "The NVIDIA driver needs its VFIO configuration.", drivers.vfio_config_missing
    ),
    _check(
        "config-for-another-driver", WARNING, "Configuration that no driver reads.", drivers.config_for_another_driver
    ),
    _check("driver-without-metadata", WARNING, "A driver that can't serve VMs.", drivers.driver_without_metadata),
    _check("no-address", LENIENT, "A device without a usable address.", drivers.no_address),
    _check("address-key", WARNING, "An address that this KubeVirt doesn't read.", drivers.address_key),
    _check(
        "permitted-host-devices",
        LENIENT,
        "permittedHostDevices prevents the creation of the VM's pod.",
        configuration.permitted_host_devices,
    ),
    _check(
        "device-served-twice",
        WARNING,
        "KubeVirt's device plugin allocates the same device.",
        configuration.device_served_twice,
        RUNNING,
    ),
    _check(
        "mdev-sweep",
        WARNING,
        "KubeVirt removes mediated devices that virt-dra's node driver makes.",
        find_beside=configuration.mdev_sweep,
    ),
    _check("direct-claim-pins", WARNING, "A direct claim pins the VM to a node.", lifetime.direct_claim_pins, RUNNING),
    _check("direct-claim-shared", WARNING, "Several VMs name the same claim.", lifetime.direct_claim_shared, RUNNING),
    _check(
        "eviction-blocks-drain",
        WARNING,
        "A VM that can't migrate blocks the drain of its node.",
        lifetime.eviction_blocks_drain,
        RUNNING,
    ),
    _check("pod-refused", DENIAL, "The VM gets no launcher pod.", nodes.pod_refused, last=True),
    _check(
        "claims-do-not-fit",
        DENIAL,
        "No node could serve all claims of the VM together.",
        nodes.claims_do_not_fit,
        last=True,
    ),
    _check("no-node-fits", DENIAL, "No node has room for the VM, or admits it.", nodes.no_node_fits, last=True),
    _check("invalid-domain", DENIAL, "The VM can't be converted to a libvirt domain.", nodes.invalid_domain, last=True),
)

UNKNOWN_LINT_ID: Final = "unknown-lint-id"

CHECKS: Final[tuple[LintCheck, ...]] = (
    _check(
        UNKNOWN_LINT_ID,
        WARNING,
        "The annotation silences a finding that does not exist.",
        vm_alone.unknown_lint_id(frozenset({UNKNOWN_LINT_ID, *(check.id for check in _CHECKS)})),
        RUNNING,
    ),
    *_CHECKS,
)

BY_ID: Final[Mapping[str, LintCheck]] = MappingProxyType({check.id: check for check in CHECKS})

REFUSED_BY_REVIEW: Final = "kubevirt-refuses"
"""The check with the denials of :func:`webhooks.vmi.review`."""
WARNED_BY_REVIEW: Final = frozenset(WARNERS)
"""The checks with the warnings of :func:`webhooks.vmi.review`."""
