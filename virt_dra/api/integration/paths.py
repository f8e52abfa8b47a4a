"""How the devices of a VM's claims reach a KubeVirt that is left as it is (K-11, docs/decisions/0012-real-cluster.md).

For each pair (claim entry, request) of the container ``compute`` one path is decided when the launcher pod is created:

    native          nothing is done: the driver writes the metadata file that KubeVirt reads
    metadata-shim   the pod gets a volume with that file, filled from an annotation that the operator writes
    device-plugin   the pod gets claims in place of extended resources, and the variables that a device plugin would
                    have set
    none            nothing can be done, and the message says why

The pod webhook and the operator meet here: keys of annotations, names of volumes, files and variables are made by these
functions and nowhere else. What the annotations hold is read in ``device_claims`` (the user's) and
``record`` (ours).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeGuard

from virt_dra.api import names
from virt_dra.api.core_v1 import PodResourceClaim
from virt_dra.api.integration.device_metadata import FILE_SUFFIX, request_directory, request_directory_1_8_0
from virt_dra.api.integration.known_drivers import ALWAYS_WRITE, NEVER_WRITE, WRITES_METADATA_ANNOTATION
from virt_dra.api.kubevirt_versions import V1_8_0, V1_8_3, KubeVirtVersion

IntegrationPath = Literal["native", "metadata-shim", "device-plugin", "none"]
PathChoice = Literal["auto", "native", "metadata-shim", "device-plugin"]
NATIVE: Final = "native"
METADATA_SHIM: Final = "metadata-shim"
DEVICE_PLUGIN: Final = "device-plugin"
NONE: Final = "none"
AUTO: Final = "auto"
PATH_CHOICES: Final[tuple[PathChoice, ...]] = (AUTO, NATIVE, METADATA_SHIM, DEVICE_PLUGIN)

# --- annotations ---

DOMAIN: Final = "virt-dra.io"
POLICY_ANNOTATION: Final = f"{DOMAIN}/placement-policy"
"""On VMs' templates (copied to pods) and namespaces, by the user: a placement policy, for `virt-dra extender`."""
PATH_ANNOTATION: Final = f"{DOMAIN}/integration-path"
"""On VMIs and VM templates, by the user: a :data:`PathChoice`."""
DEVICE_CLAIMS_ANNOTATION: Final = f"{DOMAIN}/device-claims"
"""On VMIs and VM templates, by the user: which claim serves which plugin device (``device_claims``)."""
LINT_IGNORE_ANNOTATION: Final = f"{DOMAIN}/lint-ignore"
"""On VMIs and VM templates, by the user: ids of findings, with commas."""
PCI_PLACEMENT_ANNOTATION: Final = f"{DOMAIN}/pci-placement"
"""On VMIs and VM templates, by the user: how the hook sidecar places PCI devices (K-11.17)."""
DEVICE_STATUS_ANNOTATION: Final = f"{DOMAIN}/device-status"
"""On VMIs, by the operator: the deviceStatus as JSON (K-5.21)."""
INTEGRATION_ANNOTATION: Final = f"{DOMAIN}/integration"
"""On launcher pods, by the pod webhook: what it did and what the operator has to fill in (``record``)."""
METADATA_DOMAIN: Final = f"metadata.{DOMAIN}"
"""On launcher pods, by the operator: the content of a metadata file, one annotation for each pair."""
ADDRESSES_DOMAIN: Final = f"addresses.{DOMAIN}"
"""On launcher pods, by the operator: the value of an environment variable."""
ADDRESSES_READY_ANNOTATION: Final = f"{ADDRESSES_DOMAIN}/ready"
"""On launcher pods, by the operator: :data:`ADDRESSES_READY` once all variables are set. The pod waits for it."""
ADDRESSES_READY: Final = "true"
RETRY_ANNOTATION: Final = f"{DOMAIN}/pod-retry"
"""On VMIs, by the operator: when it last had virt-controller try again to create a pod that the webhook refused."""
POD_WEBHOOK: Final = "launcher-pods.virt-dra.io"
"""The name of the pod webhook in its configuration, by which the API server's errors name it."""

PART_OF_LABEL: Final = "app.kubernetes.io/part-of"
PART_OF: Final = "virt-dra"
"""Every object of ours has this label."""

ANNOTATIONS_LIMIT: Final = 256 * 1024
"""Bytes that all keys and values of an object's annotations may have together."""

# --- the device-plugin path's init container ---

PCI_PREFIX: Final = "PCI_RESOURCE"
MDEV_PREFIX: Final = "MDEV_PCI_RESOURCE"
WAIT_CONTAINER: Final = "virt-dra-wait-for-addresses"
WAIT_VOLUME: Final = "virt-dra-addresses"
WAIT_DIRECTORY: Final = "/var/run/virt-dra/addresses"
WAIT_FILE: Final = "ready"
"""In :data:`WAIT_DIRECTORY`: what :data:`ADDRESSES_READY_ANNOTATION` says; empty until the operator has written."""

SHIM_FILE: Final = f"{DOMAIN}{FILE_SUFFIX}"
"""The one file of a metadata volume. Its driver isn't known by then; readers look for the suffix only (K-7.9)."""

_NAME_LIMIT = 63
_HASH = 16


def own_pod_annotations(annotations: Iterable[str]) -> tuple[str, ...]:
    """The given keys that only the pod webhook may set on a launcher pod.

    virt-controller copies a VMI's annotations to its pod (K-4.2), so a tenant could set them there: the pod webhook
    removes all that it does not set itself.
    """
    ours = (INTEGRATION_ANNOTATION, DEVICE_STATUS_ANNOTATION, RETRY_ANNOTATION)
    return tuple(
        key for key in annotations if key in ours or key.startswith((f"{METADATA_DOMAIN}/", f"{ADDRESSES_DOMAIN}/"))
    )


def metadata_annotation(claim: str, request: str) -> str:
    """The key for a pair, both DNS labels: ``metadata.virt-dra.io/<claim>.<request>``, shortened if too long."""
    name = f"{claim}.{request}"
    # A label has no "_", so that a shortened name is never another pair's.
    return f"{METADATA_DOMAIN}/{name if len(name) <= _NAME_LIMIT else _shortened(name, '_')}"


def address_annotation(variable: str) -> str:
    """The key for a :func:`resource_variable`: ``addresses.virt-dra.io/<variable>``, shortened if too long."""
    # A variable has no ".".
    return f"{ADDRESSES_DOMAIN}/{variable if len(variable) <= _NAME_LIMIT else _shortened(variable, '.')}"


def metadata_volume(claim: str, request: str) -> str:
    """The name of a pair's volume: a DNS label."""
    return f"virt-dra-metadata-{_digest(f'{claim}.{request}')}"


def resource_variable(prefix: str, resource: str) -> str:
    """``PCI_RESOURCE``, ``vendor.com/x`` -> ``PCI_RESOURCE_VENDOR_COM_X``; "-" is kept (K-7.2)."""
    return f"{prefix}_{resource.upper().replace('/', '_').replace('.', '_')}"


def _shortened(name: str, separator: str) -> str:
    kept = re.sub("[^A-Za-z0-9]+$", "", name[: _NAME_LIMIT - _HASH - len(separator)])
    return f"{kept}{separator}{_digest(name)}"


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]


# --- where KubeVirt looks for metadata ---

Layout = Literal["KEP-5304", "KubeVirt-1.8.0"]


def layout_of(version: KubeVirtVersion) -> Layout:
    """The folders and formats of the metadata files that this KubeVirt (1.8.0 or newer) reads (K-7.9, K-7.11)."""
    return "KEP-5304" if version >= V1_8_3 else "KubeVirt-1.8.0"


def metadata_directory(entry: PodResourceClaim, request: str, layout: Layout) -> str:
    """The request's directory, where the volume is mounted. Only for pairs whose names :func:`decide` accepted."""
    if layout == "KEP-5304":
        return request_directory(entry.name, entry.resource_claim_name, request)
    # Any directory will do for a template's claim there; one that no claim object can have as its name.
    return request_directory_1_8_0(f"{entry.name}_", entry.resource_claim_name, request)


# --- the decision ---

DRIVER_WRITES_METADATA: Final = "DriverWritesMetadata"
"""native: every driver that may serve the request writes the file itself."""
DRIVER_WRITES_NO_METADATA: Final = "DriverWritesNoMetadata"
"""metadata-shim: no driver that may serve the request is known to write the file."""
DRIVER_UNKNOWN: Final = "DriverUnknown"
"""metadata-shim: nothing says which driver will serve the request, so the KubeVirt release alone decides."""
DRIVERS_DIFFER: Final = "DriversDiffer"
"""native, with a warning: some drivers write the file; a volume would keep their pods from starting."""
OLD_METADATA_PATH: Final = "OldMetadataPath"
"""metadata-shim: this KubeVirt looks where no driver writes (K-7.11)."""
ASKED_FOR: Final = "AskedFor"
"""The annotation says so; with a warning where that doesn't go together with the drivers that may serve the request."""
NATIVE_NOT_READ: Final = "NativeNotRead"
"""none: the annotation says native, and this KubeVirt looks where no driver writes (K-7.11)."""
MOUNTED_BY_OTHERS: Final = "MountedByOthers"
"""native, with a warning: another volume is mounted in place of the pair's."""
NO_METADATA_READ: Final = "NoMetadataRead"
"""none: this KubeVirt reads no metadata files, so only the device-plugin path is left."""
NO_DEVICE_CLAIMS: Final = "NoDeviceClaims"
"""none: the device-plugin path was asked for and no annotation says which claims take the devices' place."""
BAD_NAME: Final = "BadName"
"""none: claim, request or ResourceClaim can't have such a name, so Kubernetes refuses the pod anyway (K-3.2)."""
NO_REQUEST: Final = "NoRequest"
"""none: the whole claim is used; KubeVirt reads metadata by request only (K-7.10)."""
IN_DEVICE_CLAIMS: Final = "InDeviceClaims"
"""device-plugin: the annotation has the claim."""

BY_DRIVERS: Final = frozenset({DRIVER_WRITES_METADATA, DRIVER_WRITES_NO_METADATA, DRIVER_UNKNOWN, DRIVERS_DIFFER})
"""Reasons of decisions that depend on the drivers: no such decision may be made before the drivers are known."""
BY_CHOICE: Final = frozenset({ASKED_FOR, NATIVE_NOT_READ, NO_METADATA_READ, NO_DEVICE_CLAIMS})
"""Reasons of decisions that answer the annotation, where there is one."""


@dataclass(frozen=True)
class ClaimRequestPair:
    """A claim entry of the pod, by its name there, and one of its requests. ``request`` is "" for the whole claim."""

    claim: str
    request: str

    def __str__(self) -> str:
        return f"{self.claim}/{self.request}" if self.request else self.claim


@dataclass(frozen=True)
class PathDecision:
    """The path of a pair. ``warning``: the VM may not, or will not, get its device this way; the message says what to
    do. ``fails``: it will not, whichever of the drivers serves the request."""

    pair: ClaimRequestPair
    path: IntegrationPath
    reason: str
    message: str
    warning: bool = False
    fails: bool = False


class InvalidPathChoice(ValueError):
    """The annotation names no path. The message starts with its field path."""


def chosen_path(annotations: Mapping[str, str], root: str = "metadata.annotations") -> PathChoice:
    """The value of :data:`PATH_ANNOTATION`; ``auto`` without it or where it is empty. Raises
    :class:`InvalidPathChoice`."""
    choice = annotations.get(PATH_ANNOTATION, "") or AUTO
    if not _is_choice(choice):
        field = f"{root}[{PATH_ANNOTATION}]"
        raise InvalidPathChoice(
            f"{field}: {choice[:40]!r} is no integration path; write one of {', '.join(PATH_CHOICES)}"
        )
    return choice


def _is_choice(text: str) -> TypeGuard[PathChoice]:
    return text in PATH_CHOICES


def decide(
    entry: PodResourceClaim,
    request: str,
    version: KubeVirtVersion,
    choice: PathChoice,
    drivers: Iterable[str],
    writers: frozenset[str] = ALWAYS_WRITE,
    *,
    silent: frozenset[str] = NEVER_WRITE,
    in_device_claims: bool = False,
) -> PathDecision:
    """The path of one pair of a launcher pod's container ``compute`` (decision 0012).

    ``entry``: of the pod's resourceClaims, not yet validated by anybody; ``request``: "" for the whole claim.
    ``choice``: the user's. ``drivers``: those of the devices that may serve the request, as far as they are known.
    ``writers``: those that write metadata files (``known_drivers.metadata_writers``); ``silent``: those that certainly
    write none. ``in_device_claims``: the claim was put into the pod for :data:`DEVICE_CLAIMS_ANNOTATION`.
    """
    pair = ClaimRequestPair(entry.name, request)
    names = tuple(sorted(set(drivers)))
    writing = tuple(driver for driver in names if driver in writers)
    unusable = _unusable_names(entry, pair)
    if unusable is not None:
        return unusable
    if in_device_claims:
        message = f"the claim takes the place of extended resources ({DEVICE_CLAIMS_ANNOTATION})"
        return PathDecision(pair, DEVICE_PLUGIN, IN_DEVICE_CLAIMS, message)
    if choice == DEVICE_PLUGIN:
        message = (
            f"path {DEVICE_PLUGIN} needs the annotation {DEVICE_CLAIMS_ANNOTATION}, "
            "and devices with deviceName instead of claimName"
        )
        return PathDecision(pair, NONE, NO_DEVICE_CLAIMS, message, warning=True, fails=True)
    if version < V1_8_0:
        asked = f"path {choice} was asked for, and " if choice != AUTO else ""
        return PathDecision(pair, NONE, NO_METADATA_READ, f"{asked}{no_metadata_read(version)}", warning=True)
    if choice != AUTO:
        never_starts = bool(names) and silent.issuperset(names)
        return _as_chosen(pair, choice, version, names, writing, never_starts=never_starts)
    if version < V1_8_3:
        return PathDecision(pair, METADATA_SHIM, OLD_METADATA_PATH, _looks_elsewhere(version))
    return _by_drivers(pair, names, writing)


def no_metadata_read(version: KubeVirtVersion) -> str:
    """Why no device reaches a VM on this KubeVirt by a metadata file, and what to do."""
    advice = f"use KubeVirt 1.8.0 or newer, or devices with deviceName and the annotation {DEVICE_CLAIMS_ANNOTATION}"
    return f"KubeVirt {version} reads no metadata files; {advice}"


def _unusable_names(entry: PodResourceClaim, pair: ClaimRequestPair) -> PathDecision | None:
    """The decision for names with which no path works; None if they are fine."""
    if not pair.request:
        message = f"claim {pair.claim} is used whole; KubeVirt finds a device by its request only"
        return PathDecision(pair, NONE, NO_REQUEST, message, warning=True, fails=True)
    if names.dns1123_label(pair.claim) or names.dns1123_label(pair.request):
        message = f"{str(pair)[:140]!r} are no DNS labels, which Kubernetes wants for claim and request"
        return PathDecision(pair, NONE, BAD_NAME, message, warning=True, fails=True)
    if entry.resource_claim_name and names.dns1123_subdomain(entry.resource_claim_name):
        message = f"{entry.resource_claim_name[:270]!r} is no name of a ResourceClaim"
        return PathDecision(pair, NONE, BAD_NAME, message, warning=True, fails=True)
    return None


WRITES_NONE: Final = "driver {} writes no metadata files, without which the VM never starts"
NOT_KNOWN_TO_WRITE: Final = "driver {} is not known to write metadata files, without which the VM doesn't start"
CHOOSE_SHIM: Final = f"remove annotation {PATH_ANNOTATION}, or set it to {METADATA_SHIM}"
CHOOSE_OTHERWISE: Final = (
    f"{CHOOSE_SHIM}; if the driver writes them, name it in annotation {WRITES_METADATA_ANNOTATION} of a DeviceClass"
)
"""What to do where path native was asked for and the driver isn't known to write metadata files."""


def _looks_elsewhere(version: KubeVirtVersion) -> str:
    return f"KubeVirt {version} looks for metadata files where no driver writes them"


def _as_chosen(
    pair: ClaimRequestPair,
    choice: IntegrationPath,
    version: KubeVirtVersion,
    drivers: tuple[str, ...],
    writing: tuple[str, ...],
    *,
    never_starts: bool,
) -> PathDecision:
    """The native or metadata-shim path that the user asks for, with a warning where it may not work. ``never_starts``:
    no driver that may serve the request writes metadata files."""
    if choice == NATIVE and version < V1_8_3:
        message = f"path {NATIVE} was asked for, and {_looks_elsewhere(version)}; use 1.8.3 or newer, or {CHOOSE_SHIM}"
        return PathDecision(pair, NONE, NATIVE_NOT_READ, message, warning=True, fails=True)
    silent = tuple(driver for driver in drivers if driver not in writing)
    if choice == NATIVE and silent:
        why = (WRITES_NONE if never_starts else NOT_KNOWN_TO_WRITE).format(", ".join(silent))
        advice = CHOOSE_SHIM if never_starts else CHOOSE_OTHERWISE
        message = f"path {NATIVE} was asked for, and {why}: {advice}"
        return PathDecision(pair, choice, ASKED_FOR, message, warning=True, fails=never_starts)
    if choice == METADATA_SHIM and version >= V1_8_3 and writing:
        message = (
            f"driver {', '.join(writing)} writes a metadata file of its own, which can't be mounted into the volume of "
            f"path {METADATA_SHIM}, which was asked for; remove annotation {PATH_ANNOTATION}, or set it to {NATIVE}"
        )
        return PathDecision(pair, choice, ASKED_FOR, message, warning=True, fails=not silent)
    return PathDecision(pair, choice, ASKED_FOR, f"annotation {PATH_ANNOTATION} asks for it")


def _by_drivers(pair: ClaimRequestPair, drivers: tuple[str, ...], writing: tuple[str, ...]) -> PathDecision:
    """The path that follows from which drivers may serve the request, and which of these write metadata files."""
    listed = ", ".join(drivers)
    if not drivers:
        return PathDecision(
            pair, METADATA_SHIM, DRIVER_UNKNOWN, "no published device says which driver serves the request"
        )
    if not writing:
        return PathDecision(
            pair, METADATA_SHIM, DRIVER_WRITES_NO_METADATA, f"driver {listed} is not known to write metadata files"
        )
    if writing == drivers:
        return PathDecision(pair, NATIVE, DRIVER_WRITES_METADATA, f"driver {listed} writes metadata files")
    message = (
        f"of the drivers that may serve the request ({listed}) only {', '.join(writing)} writes metadata files; "
        "use a DeviceClass that selects one driver"
    )
    return PathDecision(pair, NATIVE, DRIVERS_DIFFER, message, warning=True)
