"""All checks in the order of their findings: of the object itself, of the objects that it names, of devices, of the
VM's later life."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

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
from webhooks.rules.warnings import WARNERS, Warner

_WARNING_RULES: Final[Mapping[str, tuple[Severity, LintStage, str]]] = MappingProxyType(
    {
        "unknown-field": (DENIAL, WRITTEN, "A field that does not exist."),
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


def _rule_check(id: str, warner: Warner) -> LintCheck:
    severity, stage, title = _WARNING_RULES[id]
    if id == UNKNOWN_FIELD:
        return LintCheck(
            id,
            severity,
            title,
            vm_alone.warned(warner),
            lenient=True,
            find_as_written=manifests.unknown_field,
            matters=stage,
        )
    return LintCheck(id, severity, title, vm_alone.warned(warner), matters=stage)


_CHECKS: Final = (
    LintCheck(
        UNREADABLE,
        DENIAL,
        "An object that isn't valid for its kind.",
        find_as_written=manifests.unreadable_object,
    ),
    LintCheck(UNRENDERED, DENIAL, "A template that was not rendered.", find_as_written=manifests.unrendered_template),
    LintCheck(
        OLD_VERSION,
        WARNING,
        "A version of resource.k8s.io before v1.",
        find_as_written=manifests.old_version,
        opt_in=True,
    ),
    LintCheck(INVALID, DENIAL, "The API server refuses the object.", find_as_written=manifests.invalid_object),
    LintCheck(
        "kubevirt-refuses",
        DENIAL,
        "KubeVirt's own admission refuses the object.",
        vm_alone.kubevirt_refuses,
        matters=WRITTEN,
    ),
    LintCheck(
        "reserved-label",
        DENIAL,
        "A label that only KubeVirt may set.",
        vm_alone.reserved_label,
        lenient=True,
        matters=WRITTEN,
    ),
    LintCheck("status-on-create", WARNING, "A new VMI has a status.", vm_alone.status_on_create, matters=WRITTEN),
    LintCheck(
        "integration-annotation",
        DENIAL,
        "An annotation of virt-dra with an invalid value.",
        vm_alone.integration_annotation,
    ),
    *(_rule_check(id, warner) for id, warner in WARNERS.items()),
    LintCheck(
        "feature-gate-off",
        DENIAL,
        "A feature gate that the VM needs is off.",
        versions.feature_gate_off,
        matters=WRITTEN,
    ),
    LintCheck(
        "kubevirt-too-old", DENIAL, "This KubeVirt doesn't support devices from claims.", versions.kubevirt_too_old
    ),
    LintCheck(
        "metadata-path",
        WARNING,
        "KubeVirt 1.8.0 to 1.8.2 look for metadata in the wrong place.",
        versions.metadata_path,
    ),
    LintCheck(
        "path-does-not-work",
        DENIAL,
        "The integration path that the VM asks for can't work.",
        versions.path_does_not_work,
        lenient=True,
    ),
    LintCheck(
        "path-may-not-work",
        WARNING,
        "The integration path that the VM asks for may not work.",
        versions.path_may_not_work,
    ),
    LintCheck(
        "direct-claim-unresolved",
        DENIAL,
        "KubeVirt 1.6 and 1.7 never find devices of direct claims.",
        versions.direct_claim_unresolved,
    ),
    LintCheck(
        "instancetype-missing",
        DENIAL,
        "An instancetype or preference does not exist.",
        objects.instancetype_missing,
        lenient=True,
        matters=WRITTEN,
    ),
    LintCheck(
        "instancetype-not-checked",
        WARNING,
        "An instancetype or preference is not among the files.",
        objects.instancetype_not_checked,
        matters=WRITTEN,
    ),
    LintCheck("profile-line", DENIAL, "A line that asks for devices, and can't be read.", profiles.profile_line),
    LintCheck("profile-missing", DENIAL, "A DeviceProfile does not exist.", profiles.profile_missing, lenient=True),
    LintCheck(
        "profile-not-allowed",
        DENIAL,
        "A DeviceProfile that is for other namespaces.",
        profiles.profile_not_allowed,
        lenient=True,
    ),
    LintCheck(
        "profile-conflict",
        DENIAL,
        "A line of DeviceProfiles contradicts the VM's own entries.",
        profiles.profile_conflict,
    ),
    LintCheck(
        "profile-line-ignored",
        WARNING,
        "A line that asks for devices where nobody reads it.",
        profiles.profile_line_ignored,
        find_beside=profiles.instancetype_line_ignored,
        matters=WRITTEN,
    ),
    LintCheck(
        "keep-limited",
        WARNING,
        "A KeepPolicy allows less than the VM asks to keep.",
        keeping.keep_limited,
        matters=RUNNING,
    ),
    LintCheck(
        "keep-ignored",
        WARNING,
        "Keeping that is asked for where nobody hears it.",
        keeping.keep_ignored,
        find_beside=keeping.instancetype_keep_ignored,
        matters=WRITTEN,
    ),
    LintCheck(
        "keeper-missing",
        DENIAL,
        "The cluster has no keeper for the VM's devices.",
        keeping.keeper_missing,
        matters=START,
    ),
    LintCheck(
        "kept-claim-clash",
        DENIAL,
        "The claim that the VM would keep has the name of another.",
        keeping.kept_claim_clash,
    ),
    LintCheck("refused-object", DENIAL, "The API server refuses an object that the VM uses.", objects.refused_object),
    LintCheck(
        "template-missing", DENIAL, "A ResourceClaimTemplate does not exist.", objects.template_missing, lenient=True
    ),
    LintCheck("claim-missing", DENIAL, "A ResourceClaim does not exist.", objects.claim_missing, lenient=True),
    LintCheck(
        "claim-not-listed", DENIAL, "A host device names a claim that the VM doesn't list.", objects.claim_not_listed
    ),
    LintCheck("request-missing", DENIAL, "A request is not in the claim.", objects.request_missing, lenient=True),
    LintCheck("class-missing", DENIAL, "A DeviceClass does not exist.", objects.class_missing, lenient=True),
    LintCheck(
        "several-devices",
        DENIAL,
        "A request for several devices, of which a VM gets at most one.",
        shapes.several_devices,
        lenient=True,
    ),
    LintCheck(
        "first-available",
        WARNING,
        "KubeVirt doesn't find the device of a request with alternatives.",
        shapes.first_available,
    ),
    LintCheck("admin-access", DENIAL, "A request with admin access.", shapes.admin_access, lenient=True),
    LintCheck("selector-error", DENIAL, "A selector that can't be evaluated.", selection.selector_error, lenient=True),
    LintCheck(
        SELECTOR_NOT_CHECKED,
        WARNING,
        "Selectors could not be evaluated within the limits of one review.",
        selection.selector_not_checked,
        never_denies=True,
    ),
    LintCheck(
        "selector-fails-on-device", WARNING, "A selector that fails on some device.", selection.selector_fails_on_device
    ),
    LintCheck(
        "no-matching-device", DENIAL, "No device in the cluster matches.", selection.no_matching_device, lenient=True
    ),
    LintCheck("not-enough-devices", DENIAL, "No node has enough devices.", selection.not_enough_devices, lenient=True),
    LintCheck(
        "not-enough-capacity",
        DENIAL,
        "No device has the requested capacity.",
        selection.not_enough_capacity,
        lenient=True,
    ),
    LintCheck("devices-tainted", WARNING, "All devices that match are tainted.", selection.devices_tainted),
    LintCheck(
        "no-usable-node",
        DENIAL,
        "No node matches nodeSelector and has devices for all requests.",
        nodes.no_usable_node,
        lenient=True,
    ),
    LintCheck(
        "not-a-vfio-device",
        DENIAL,
        "Devices that the driver reserves for containers.",
        drivers.not_a_vfio_device,
        lenient=True,
    ),
    LintCheck(
        "vfio-config-missing",
        DENIAL,
        "The NVIDIA driver needs its VFIO configuration.",
        drivers.vfio_config_missing,
        lenient=True,
    ),
    LintCheck(
        "config-for-another-driver", WARNING, "Configuration that no driver reads.", drivers.config_for_another_driver
    ),
    LintCheck("driver-without-metadata", WARNING, "A driver that can't serve VMs.", drivers.driver_without_metadata),
    LintCheck("no-address", DENIAL, "A device without a usable address.", drivers.no_address, lenient=True),
    LintCheck("address-key", WARNING, "An address that this KubeVirt doesn't read.", drivers.address_key),
    LintCheck(
        "permitted-host-devices",
        DENIAL,
        "permittedHostDevices prevents the creation of the VM's pod.",
        configuration.permitted_host_devices,
        lenient=True,
    ),
    LintCheck(
        "device-served-twice",
        WARNING,
        "KubeVirt's device plugin allocates the same device.",
        configuration.device_served_twice,
        matters=RUNNING,
    ),
    LintCheck(
        "mdev-sweep",
        WARNING,
        "KubeVirt removes mediated devices that virt-dra's node driver makes.",
        find_beside=configuration.mdev_sweep,
    ),
    LintCheck(
        "direct-claim-pins",
        WARNING,
        "A direct claim pins the VM to a node.",
        lifetime.direct_claim_pins,
        matters=RUNNING,
    ),
    LintCheck(
        "direct-claim-shared",
        WARNING,
        "Several VMs name the same claim.",
        lifetime.direct_claim_shared,
        matters=RUNNING,
    ),
    LintCheck(
        "eviction-blocks-drain",
        WARNING,
        "A VM that can't migrate blocks the drain of its node.",
        lifetime.eviction_blocks_drain,
        matters=RUNNING,
    ),
    LintCheck("pod-refused", DENIAL, "The VM gets no launcher pod.", nodes.pod_refused, last=True),
    LintCheck(
        "claims-do-not-fit",
        DENIAL,
        "No node could serve all claims of the VM together.",
        nodes.claims_do_not_fit,
        last=True,
    ),
    LintCheck("no-node-fits", DENIAL, "No node has room for the VM, or admits it.", nodes.no_node_fits, last=True),
    LintCheck(
        "invalid-domain", DENIAL, "The VM can't be converted to a libvirt domain.", nodes.invalid_domain, last=True
    ),
)

UNKNOWN_LINT_ID: Final = "unknown-lint-id"

CHECKS: Final[tuple[LintCheck, ...]] = (
    LintCheck(
        UNKNOWN_LINT_ID,
        WARNING,
        "The annotation silences a finding that does not exist.",
        vm_alone.unknown_lint_id(frozenset({UNKNOWN_LINT_ID, *(check.id for check in _CHECKS)})),
        matters=RUNNING,
    ),
    *_CHECKS,
)

BY_ID: Final[Mapping[str, LintCheck]] = MappingProxyType({check.id: check for check in CHECKS})

REFUSED_BY_REVIEW: Final = "kubevirt-refuses"
"""The check with the denials of :func:`webhooks.vmi.review`."""
WARNED_BY_REVIEW: Final = frozenset(WARNERS)
"""The checks with the warnings of :func:`webhooks.vmi.review`."""
