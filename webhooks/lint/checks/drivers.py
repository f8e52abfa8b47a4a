"""Drivers and their configuration: whether a device reaches the VM with an address and a node to open (K-6, K-7.9, K-11.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from virt_dra.api.attribute_keys import STANDARD_DOMAIN, Addresses, Unusable, addresses
from virt_dra.api.go_text import quoted
from virt_dra.api.kubevirt_versions import V1_6_0, V1_8_0
from virt_dra.api.resource_v1 import DeviceAttribute, OpaqueDeviceConfiguration
from webhooks.lint.finding import Found
from webhooks.lint.inventory import Published, text_of
from webhooks.lint.subject import Linted, NamedClaim, Use

NVIDIA: Final = "gpu.nvidia.com"
VFIO_CONFIG: Final = "VfioDeviceConfig"
_IOMMU: Final = "iommu {backendPolicy: LegacyOnly, enableAPIDevice: true}"

_DRIVERS_OF_CLASSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gpu.nvidia.com": NVIDIA,
        "mig.nvidia.com": NVIDIA,
        "vfio.gpu.nvidia.com": NVIDIA,
        "gpu.intel.com": "gpu.intel.com",
        "gpu-vfio.intel.com": "gpu.intel.com",
        "sriovnetwork.k8snetworkplumbingwg.io": "sriovnetwork.k8snetworkplumbingwg.io",
        "gpu.amd.com": "gpu.amd.com",
    }
)
"""Which driver serves a class that it brings along (K-6.7); asked only where no published device tells."""

WITHOUT_METADATA: Final[Mapping[str, str]] = MappingProxyType(
    {"dra.net": "it does not publish network cards that are bound to vfio-pci, and writes no metadata files"}
)
"""Drivers known not to serve VMs, and why (K-6.7)."""


def drivers_of(linted: Linted, use: Use) -> tuple[str, ...]:
    """The drivers that may serve a use, sorted: those of the devices that match, else that of a well-known class."""
    found = {device.driver for device in linted.candidates(use)}
    if not found:
        found = {_DRIVERS_OF_CLASSES[wish.class_name] for wish in use.wishes if wish.class_name in _DRIVERS_OF_CLASSES}
    return tuple(sorted(found))


def vfio_config_missing(linted: Linted) -> Iterator[Found]:
    """K-11.3: without this configuration the NVIDIA driver does not expose /dev/vfio/vfio."""
    for use in linted.uses:
        claim = use.claim
        if claim is None or claim.spec is None or use.request is None or NVIDIA not in drivers_of(linted, use):
            continue
        if _only(linted.candidates(use), "gpu", "mig"):
            continue  # not-a-vfio-device says what is wrong
        wanted = f"opaque configuration of driver {NVIDIA} with kind {VFIO_CONFIG} and {_IOMMU}"
        given = [
            config
            for config in _configurations(linted, use)
            if config.driver == NVIDIA and _member(config.parameters, "kind") == VFIO_CONFIG
        ]
        if not given:
            yield Found(
                claim.field,
                f"{claim} has no {wanted} for request {quoted(use.request_name)}; without it the driver does not expose /dev/vfio/vfio, "
                f"and the VM does not boot. Add it at {claim.root}.devices.config",
            )
            continue
        iommu = _member(given[-1].parameters, "iommu")
        policy, api_device = _member(iommu, "backendPolicy"), _member(iommu, "enableAPIDevice")
        wrong = []
        if policy != "LegacyOnly":
            wrong.append(f"iommu.backendPolicy is {_said(policy)} and must be LegacyOnly")
        if api_device is not True:
            wrong.append(f"iommu.enableAPIDevice is {_said(api_device)} and must be true")
        if wrong:
            yield Found(
                claim.field,
                f"{claim}: in the {VFIO_CONFIG} for request {quoted(use.request_name)} {'; '.join(wrong)}; otherwise the driver does not "
                "expose /dev/vfio/vfio, and the VM does not boot",
            )


def _configurations(linted: Linted, use: Use) -> Sequence[OpaqueDeviceConfiguration]:
    """What applies to a request, the class's before the claim's, as a driver reads it: the last of a kind wins."""
    claim = use.claim
    assert claim is not None
    assert claim.spec is not None
    names = {use.request_name, *(wish.name for wish in use.wishes)}
    classes = [device_class for wish in use.wishes if (device_class := linted.class_of(wish)) is not None]
    of_class = [each.opaque for device_class in classes for each in device_class.spec.config]
    of_claim = [each.opaque for each in claim.spec.devices.config if not each.requests or names & set(each.requests)]
    return [opaque for opaque in (*of_class, *of_claim) if opaque is not None]


def _member(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def _said(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else type(value).__name__


def not_a_vfio_device(linted: Linted) -> Iterator[Found]:
    """Devices that stay bound to their own driver for containers: a VM can't have them (K-6.7)."""
    for use in linted.uses:
        nvidia = [device for device in linted.candidates(use) if device.driver == NVIDIA]
        bound = [device for device in nvidia if _only((device,), "gpu", "mig")]
        if not bound:
            continue
        share = "every device" if len(bound) == len(linted.candidates(use)) else f"{len(bound)} of {len(linted.candidates(use))} devices"
        yield Found(
            use.request_field,
            f"{share} that request {quoted(use.request_name)} may get, such as {bound[0]}, is of type {quoted(_type(bound[0]))}, which the "
            'driver keeps for containers. Use a class that selects type "vfio", such as vfio.gpu.nvidia.com',
        )


def _only(devices: Sequence[Published], *types: str) -> bool:
    return bool(devices) and all(device.driver == NVIDIA and _type(device) in types for device in devices)


def _type(device: Published) -> str:
    return text_of(device, "type") or ""


def config_for_another_driver(linted: Linted) -> Iterator[Found]:
    """K-12.3: configuration that no driver reads, because the devices are another driver's."""
    for claim in linted.used_claims:
        if claim.spec is None:
            continue
        for index, config in enumerate(claim.spec.devices.config):
            if config.opaque is None:
                continue
            drivers = _drivers(linted, claim, config.requests)
            if drivers and config.opaque.driver not in drivers:
                yield Found(
                    claim.field,
                    f"{claim} {claim.root}.devices.config[{index}].opaque.driver: no device that the claim may get is of driver "
                    f"{quoted(config.opaque.driver)}, so nobody reads this configuration; the devices are of "
                    f"{', '.join(drivers)}. Correct the driver, or the requests that the configuration is for",
                )


def _drivers(linted: Linted, claim: NamedClaim, requests: Sequence[str]) -> tuple[str, ...]:
    """The drivers of what matches the named requests (all, if none is named); () where one of them isn't known."""
    wishes = [wish for name in requests for wish in claim.wishes_of(name)] if requests else list(claim.wishes)
    found: set[str] = set()
    for wish in wishes:
        match = linted.matching(wish)
        if match is None or match.cut or not match.devices:
            return ()
        found |= {device.driver for device in match.devices}
    return tuple(sorted(found))


def driver_without_metadata(linted: Linted) -> Iterator[Found]:
    for use in linted.uses:
        for driver in drivers_of(linted, use):
            if driver in WITHOUT_METADATA:
                yield Found(
                    use.request_field,
                    f"the devices for request {quoted(use.request_name)} are of driver {driver}, which can't serve VMs: "
                    f"{WITHOUT_METADATA[driver]}. Use a driver for passthrough, such as sriovnetwork.k8snetworkplumbingwg.io",
                )


def no_address(linted: Linted) -> Iterator[Found]:
    """K-5.11: no key of K-6 has a usable value, so that nobody can tell which device it is."""
    for use in linted.uses:
        candidates = linted.candidates(use)
        unusable = [(each, found) for each in candidates if not isinstance(found := _addresses(each), Addresses)]
        if not unusable:
            continue
        device, why = unusable[0]
        share = "every device" if len(unusable) == len(candidates) else f"{len(unusable)} of {len(candidates)} devices"
        yield Found(
            use.request_field,
            f"{share} that request {quoted(use.request_name)} may get {'has' if share == 'every device' else 'have'} no usable address, "
            f"such as {device}: {why.message}",
        )


def _addresses(published: Published) -> Addresses | Unusable:
    return addresses(published.driver, published.device.attributes)


def address_key(linted: Linted) -> Iterator[Found]:
    """K-7.9, K-5.16: an address that virt-dra finds and KubeVirt, left alone, does not look at."""
    version = linted.version
    if version < V1_6_0:
        return
    for use in linted.uses:
        candidates = linted.candidates(use)
        unread = [each for each in candidates if isinstance(_addresses(each), Addresses) and not _read_by(linted, use, each)]
        if not unread:
            continue
        share = "every device" if len(unread) == len(candidates) else f"{len(unread)} of {len(candidates)} devices"
        keys = _OLD_KEYS if version < V1_8_0 else _NETWORK_KEYS if use.kind == "networks" else _NATIVE_KEYS
        remedy = (
            "use KubeVirt 1.8.3 or newer, or let virt-dra stand in for the device plugin"
            if version < V1_8_0
            else "let the metadata shim of virt-dra supply it, or have the driver publish it so"
        )
        yield Found(
            use.request_field,
            f"{share} that request {quoted(use.request_name)} may get, such as {unread[0]}, "
            f"{'has' if share == 'every device' else 'have'} an address under another key than KubeVirt {version} reads, which is "
            f"{' or '.join(keys)}; {remedy}",
        )


_NATIVE_KEYS: Final = ("mdevUUID", f"{STANDARD_DOMAIN}/pciBusID")
_NETWORK_KEYS: Final = (f"{STANDARD_DOMAIN}/pciBusID",)
_OLD_KEYS: Final = (f"{STANDARD_DOMAIN}/mDevUUID", f"{STANDARD_DOMAIN}/pcieRoot")
"""K-5.16: what 1.6 and 1.7 take for a PCI address is the root complex, so a driver would have to publish an address under its name."""


def _read_by(linted: Linted, use: Use, published: Published) -> bool:
    if linted.version >= V1_8_0:
        return any(_filled(published.device.attributes.get(key)) for key in (_NETWORK_KEYS if use.kind == "networks" else _NATIVE_KEYS))
    mdev, root = (published.device.attributes.get(key) for key in _OLD_KEYS)
    return _filled(mdev) or (_filled(root) and root is not None and not (root.string or "").startswith("pci"))


def _filled(attribute: DeviceAttribute | None) -> bool:
    return attribute is not None and bool(attribute.string)
