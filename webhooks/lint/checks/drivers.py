"""Drivers and their configuration: whether a device gets to the VM with an address, bound to VFIO (K-6, K-7.9,
K-11.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from virt_dra.api.go_text import quoted
from virt_dra.api.integration.known_drivers import KNOWN_DRIVERS, NVIDIA
from virt_dra.api.integration.paths import NO_METADATA_READ
from virt_dra.api.integration.slice_readers import OLD_KEYS, reads_slices, where_read
from virt_dra.api.kubevirt_versions import V1_6_0, V1_8_0
from virt_dra.api.resource_v1 import OpaqueDeviceConfiguration
from webhooks.lint.device_set import NATIVE_KEYS, NETWORK_KEYS
from webhooks.lint.finding import LintIssue
from webhooks.lint.fixes.address_keys import KeyReader, reader_of
from webhooks.lint.fixes.repairs import VfioRepair
from webhooks.lint.linted import ClaimUse, Linted, NamedClaim
from webhooks.verdict import FieldIssue

VFIO_CONFIG: Final = "VfioDeviceConfig"
_IOMMU: Final = "iommu {backendPolicy: LegacyOnly, enableAPIDevice: true}"

INTEL: Final = "gpu.intel.com"
"""The driver, and its class for containers."""
VFIO_DRIVERS: Final = frozenset({"vfio-pci", "xe-vfio-pci"})
"""Kernel drivers of devices that a VM can have, as Intel's driver publishes them."""
FOR_CONTAINERS: Final = frozenset({"gpu", "mig"})
"""Types of NVIDIA's devices that aren't bound to vfio-pci."""


_READ_KEYS: Final[Mapping[KeyReader, tuple[str, ...]]] = {
    "old": OLD_KEYS,
    "networks": NETWORK_KEYS,
    "devices": NATIVE_KEYS,
}


def drivers_of(linted: Linted, use: ClaimUse) -> tuple[str, ...]:
    """The drivers that may serve a use, sorted."""
    return linted.drivers(use.claim, use.request_name).names if use.claim is not None else ()


def vfio_config_missing(linted: Linted) -> Iterator[FieldIssue]:
    """Requests for NVIDIA devices without the configuration by which the driver exposes /dev/vfio/vfio (K-11.3)."""
    for use in linted.uses:
        claim = use.claim
        if claim is None or claim.spec is None or use.request is None or NVIDIA not in drivers_of(linted, use):
            continue
        candidates = linted.candidates(use)
        if len(candidates) and len(candidates.of_types(NVIDIA, FOR_CONTAINERS)) == len(candidates):
            continue  # not-a-vfio-device reports it
        wanted = f"opaque configuration of driver {NVIDIA} with kind {VFIO_CONFIG} and {_IOMMU}"
        of_driver = (config for config in _configurations(linted, use) if config.driver == NVIDIA)
        given = [config for config in of_driver if _member(config.parameters, "kind") == VFIO_CONFIG]
        repair = None
        if claim.allocated is None:
            configs = enumerate(claim.spec.devices.config)
            written = next((at for at, config in configs if given and config.opaque is given[-1]), None)
            repair = VfioRepair(claim.kind, linted.namespace, claim.name, use.request_name, written)
        if not given:
            yield LintIssue(
                claim.field,
                f"{claim} has no {wanted} for request {quoted(use.request_name)}; without it the driver doesn't expose "
                f"/dev/vfio/vfio, and the VM doesn't boot. Add it at {claim.root}.devices.config",
                repair,
                claim.place(f"{claim.root}.devices.config"),
            )
            continue
        iommu = _member(given[-1].parameters, "iommu")
        policy, api_device = _member(iommu, "backendPolicy"), _member(iommu, "enableAPIDevice")
        wrong = []
        if policy != "LegacyOnly":
            wrong.append(f"iommu.backendPolicy is {_shown(policy)} and must be LegacyOnly")
        if api_device is not True:
            wrong.append(f"iommu.enableAPIDevice is {_shown(api_device)} and must be true")
        if wrong:
            yield LintIssue(
                claim.field,
                f"{claim}: in the {VFIO_CONFIG} for request {quoted(use.request_name)} {'; '.join(wrong)}; otherwise "
                "the driver doesn't expose /dev/vfio/vfio, and the VM doesn't boot",
                repair,
                claim.place(f"{claim.root}.devices.config"),
            )


def _configurations(linted: Linted, use: ClaimUse) -> Sequence[OpaqueDeviceConfiguration]:
    """The configurations that apply to a request, the class's before the claim's, as drivers read them: the last of a
    kind wins."""
    claim = use.claim
    assert claim is not None
    assert claim.spec is not None
    names = {use.request_name, *(option.name for option in use.options)}
    classes = [device_class for option in use.options if (device_class := linted.class_of(option)) is not None]
    of_class = [config.opaque for device_class in classes for config in device_class.spec.config]
    of_claim = [
        config.opaque for config in claim.spec.devices.config if not config.requests or names & set(config.requests)
    ]
    return [opaque for opaque in (*of_class, *of_claim) if opaque is not None]


def _member(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def _shown(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else type(value).__name__


def not_a_vfio_device(linted: Linted) -> Iterator[FieldIssue]:
    """Devices that stay bound to a kernel driver for containers, which a VM can't get (K-6.7)."""
    yield from not_bound_to_vfio(linted)
    for use in linted.uses:
        candidates = linted.candidates(use)
        bound = candidates.of_types(NVIDIA, FOR_CONTAINERS)
        if not bound:
            continue
        kind = quoted(bound[0].text("type") or "")
        yield FieldIssue(
            use.request_field,
            f"{candidates.share(len(bound))} that request {quoted(use.request_name)} may get, such as "
            f"{bound[0]}, is of type {kind}, which the driver reserves "
            'for containers. Use a class that selects type "vfio", such as vfio.gpu.nvidia.com',
        )


def not_bound_to_vfio(linted: Linted) -> Iterator[FieldIssue]:
    """Intel GPUs of the class gpu.intel.com; the driver binds them to vfio-pci only for gpu-vfio.intel.com (K-6.7)."""
    for use in linted.uses:
        if not any(option.class_name == INTEL for option in use.options):
            continue
        configs = (config for config in _configurations(linted, use) if config.driver == INTEL)
        if any(_member(config.parameters, "driver") in VFIO_DRIVERS for config in configs):
            continue
        of_intel = (device for device in linted.candidates(use).devices if device.driver == INTEL)
        bound = [device for device in of_intel if device.text("driver") not in VFIO_DRIVERS]
        if bound:
            kernel_driver = bound[0].text("driver")
            now = f" is bound to {quoted(kernel_driver)} and" if kernel_driver else ""
            yield FieldIssue(
                use.request_field,
                f"a device that request {quoted(use.request_name)} may get, such as "
                f"{bound[0]},{now} stays bound to the host's driver for "
                f"class {INTEL}. Use the class gpu-vfio.intel.com, for which the driver binds it to vfio-pci",
            )


def config_for_another_driver(linted: Linted) -> Iterator[FieldIssue]:
    """Configuration that no driver reads, because the devices are another driver's (K-12.3)."""
    for claim in dict.fromkeys(use.claim for use in linted.uses):
        if claim is None or claim.spec is None:
            continue
        for index, config in enumerate(claim.spec.devices.config):
            if config.opaque is None:
                continue
            drivers = _drivers(linted, claim, config.requests)
            if drivers and config.opaque.driver not in drivers:
                field = f"{claim.root}.devices.config[{index}].opaque.driver"
                yield claim.issue(
                    field,
                    f"{claim} {field}: no device that the claim may get is of driver {quoted(config.opaque.driver)}, "
                    f"so no driver reads this configuration; the devices are of {', '.join(drivers)}. "
                    "Correct the driver, or the requests that the configuration is for",
                )


def _drivers(linted: Linted, claim: NamedClaim, requests: Sequence[str]) -> tuple[str, ...]:
    """The drivers of the devices that match the named requests (all, if none is named); () if one of them isn't
    known."""
    options = [option for name in requests for option in claim.options_of(name)] if requests else list(claim.options)
    drivers: set[str] = set()
    for option in options:
        match = linted.matching(option)
        if match is None or match.incomplete or not match.devices:
            return ()
        drivers |= set(match.set.drivers)
    return tuple(sorted(drivers))


def driver_without_metadata(linted: Linted) -> Iterator[FieldIssue]:
    """Devices of drivers that are known not to serve VMs."""
    for use in linted.uses:
        for driver in drivers_of(linted, use):
            reader = KNOWN_DRIVERS.get(driver)
            if reader is not None and reader.unfit:
                yield FieldIssue(
                    use.request_field,
                    f"the devices for request {quoted(use.request_name)} are of driver {driver}, which can't serve "
                    f"VMs: {reader.unfit}. Use a driver for passthrough, such as sriovnetwork.k8snetworkplumbingwg.io",
                )


def no_address(linted: Linted) -> Iterator[FieldIssue]:
    """Devices that publish no address under any key of K-6, so that it is unknown which device of the node they are
    (K-5.11)."""
    for use in linted.uses:
        candidates = linted.candidates(use)
        unusable = candidates.without(use.needs)
        if not unusable:
            continue
        device, why = unusable[0]
        detail = "the driver must publish one" if linted.settings.at_admission else why.message
        has = "has" if len(unusable) == len(candidates) else "have"
        subject = f"{candidates.share(len(unusable))} that request {quoted(use.request_name)} may get"
        reader = reader_of(linted.version, use.kind)
        repair = None if linted.settings.at_admission else candidates.spelling(use.needs, reader)
        yield LintIssue(use.request_field, f"{subject} {has} no usable address, such as {device}: {detail}", repair)


def address_key(linted: Linted) -> Iterator[FieldIssue]:
    """Addresses that virt-dra finds under keys that KubeVirt doesn't read (K-7.9, K-5.16)."""
    version = linted.version
    if version < V1_6_0:
        return
    for use in linted.uses:
        if use.needs == "none":
            continue
        candidates = linted.candidates(use)
        reader = reader_of(version, use.kind)
        keys, devices = _READ_KEYS[reader], candidates.unread_by(reader)
        if not devices or linted.shimmed(use) or _never_read(linted, use):
            continue
        has = "has" if len(devices) == len(candidates) else "have"
        remedy = (
            "use KubeVirt 1.8.3 or newer, or let virt-dra stand in for the device plugin"
            if version < V1_8_0
            else "let the metadata shim of virt-dra supply it, or have the driver publish it under that key"
        )
        yield LintIssue(
            use.request_field,
            f"{candidates.share(len(devices))} that request {quoted(use.request_name)} may get, such as {devices[0]}, "
            f"{has} an address under another key than KubeVirt {version} reads, which is {' or '.join(keys)}; {remedy}",
            None if linted.settings.at_admission else candidates.moving(reader),
        )


def no_integration_path(linted: Linted) -> Iterator[FieldIssue]:
    """Devices that never reach a VM on KubeVirt 1.6 and 1.7, which read no metadata files (K-5.16, K-5.17)."""
    for use in linted.uses:
        decision = linted.path_of(use) if _never_read(linted, use) else None
        if decision is None or decision.reason != NO_METADATA_READ:
            continue
        candidates = linted.candidates(use)
        if any(option.name == use.request_name for option in use.options):
            where = where_read(linted.version)
            why = f"no device that it may get, such as {candidates.devices[0]}, has an address {where}"
        else:
            why = f"KubeVirt {linted.version} finds no device of a request with alternatives"
        yield LintIssue(
            use.request_field,
            f"request {quoted(use.request_name)}: {why}, and {decision.message}",
            None if linted.settings.at_admission else candidates.moving("old"),
        )


def _never_read(linted: Linted, use: ClaimUse) -> bool:
    """Whether this KubeVirt looks for addresses in slices only, and finds that of no device that the use may get; False
    where not all of them are known."""
    if not reads_slices(linted.version) or use.kind == "networks" or use.claim is None:
        return False
    candidates = linted.candidates(use)
    if all(option.name != use.request_name for option in use.options):
        return len(candidates) > 0
    if not candidates.not_for_old or len(candidates.not_for_old) + len(candidates.without_address) < len(candidates):
        return False
    matches = [linted.matching(option) for option in use.options] if use.claim.allocated is None else []
    return all(match is not None and not match.incomplete for match in matches)
