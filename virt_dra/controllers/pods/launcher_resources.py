"""What a launcher pod asks its node for because of devices: claims, plugin resources, memory (K-4.4 to K-4.10). Pure.
Defects of KubeVirt's releases are reproduced where ``gates.version`` is that release (K-4.5, K-4.6, K-4.8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from virt_dra.api.core_v1 import PodResourceClaim, ResourceClaimReference
from virt_dra.api.integration.dedicated_cpus import has_dedicated_cpus
from virt_dra.api.kubevirt_v1 import DeviceEntry, Interface, PermittedHostDevices, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import (
    GPUS_WITH_DRA,
    HOST_DEVICES_WITH_DRA,
    IOMMUFD,
    MAIN,
    NETWORK_DEVICES_WITH_DRA,
    V1_6_0,
    V1_8_0,
    V1_8_3,
    V1_9_0,
    Gates,
)
from virt_dra.api.quantity import Quantity

NOT_PERMITTED = "NotPermitted"
"""A device's resource is not in the KubeVirt configuration's permittedHostDevices (K-4.8)."""
RENDERER_CRASHES = "RendererCrashes"
"""This KubeVirt release crashes on the VMI; no pod is ever made (K-4.6)."""
BAD_HOOK_SIDECARS = "BadHookSidecars"
"""The annotation that lists hook sidecars can't be read (K-11.4)."""
BAD_AFFINITY = "BadAffinity"
"""``spec.affinity`` does not have the shape of a pod's affinity."""
NO_COMPUTE_CONTAINER = "NoComputeContainer"
"""A pod to be patched has no container named ``compute`` (K-4.3)."""

ONE = Quantity("1")
MEBIBYTE = 1024 * 1024

Quantities = Mapping[str, Quantity]


@dataclass(frozen=True)
class RenderError:
    """Why no pod can be rendered. ``subject`` is the path of the field at fault."""

    reason: str
    message: str
    subject: str


@dataclass(frozen=True)
class Fragment:
    """The device part of a launcher pod (K-4.13): the pod's claims, and what its container ``compute`` gets. ``limits``
    and ``requests`` hold the resources of device plugins only."""

    resource_claims: tuple[PodResourceClaim, ...] = ()
    claims: tuple[ResourceClaimReference, ...] = ()
    limits: Quantities = field(default_factory=dict)
    requests: Quantities = field(default_factory=dict)


def fragment(
    vmi: VirtualMachineInstance, gates: Gates, permitted: PermittedHostDevices | None = None
) -> Fragment | RenderError:
    """The device part of the VMI's pod, or why KubeVirt renders none. ``permitted``: None without that
    configuration."""
    error = _not_permitted(vmi, gates, permitted) or _crash(vmi, gates)
    if error is not None:
        return error
    wanted = _plugin_counts(vmi)
    own = vmi.spec.domain.resources
    return Fragment(
        resource_claims=pod_claims(vmi, gates),
        claims=container_claims(vmi, gates),
        limits={name: own.limits.get(name, count) for name, count in wanted.items()},
        requests={name: own.requests.get(name, count) for name, count in wanted.items()},
    )


# --- claims ---


def pod_claims(vmi: VirtualMachineInstance, gates: Gates) -> tuple[PodResourceClaim, ...]:
    """``spec.resourceClaims`` of the pod: the VMI's, valid or not (K-4.4), which has none up to 1.5 (K-2.31). Only name
    and sources are copied: a member unknown to KubeVirt's API doesn't reach its controller (K-9.6)."""
    if gates.version < V1_6_0:
        return ()
    members = ("name", "resourceClaimName", "resourceClaimTemplateName")
    entries = (entry.to_wire() for entry in vmi.spec.resource_claims)
    return tuple(
        PodResourceClaim.from_wire({key: entry[key] for key in members if entry.get(key) is not None})
        for entry in entries
    )


def container_claims(vmi: VirtualMachineInstance, gates: Gates) -> tuple[ResourceClaimReference, ...]:
    """The compute container's claims, each once: gpus, hostDevices, networks, in spec order (K-4.5, K-4.13). 1.9
    renders duplicates, which the API server refuses (K-3.2). Up to 1.8.2 only the first entry of each claim *name*
    survives."""
    version = gates.version
    if version < V1_6_0:
        return ()
    seen: set[tuple[str, str]] = set()
    claims: list[ResourceClaimReference] = []
    for claim_name, request_name in _device_claims(vmi, gates):
        claim, request = claim_name or "", request_name or ""
        missing = not (claim and request) if version >= V1_8_3 else claim_name is None or request_name is None
        if version < V1_9_0 and missing:
            continue  # K-4.6
        identity = (claim, request) if version >= V1_8_3 else (claim, "")
        if identity not in seen:
            seen.add(identity)
            claims.append(
                ResourceClaimReference(name=claim, request=request) if request else ResourceClaimReference(name=claim)
            )
    return tuple(claims)


def _device_claims(vmi: VirtualMachineInstance, gates: Gates) -> Iterator[tuple[str | None, str | None]]:
    devices = vmi.spec.domain.devices
    kinds: tuple[tuple[str, Iterable[DeviceEntry]], ...] = (
        (GPUS_WITH_DRA, devices.gpus),
        (HOST_DEVICES_WITH_DRA, devices.host_devices),
    )
    for gate, entries in kinds:
        if gate in gates:
            for device in entries:
                if device.is_dra:
                    yield device.claim_name, device.request_name
    if NETWORK_DEVICES_WITH_DRA in gates:
        for network in vmi.spec.networks:
            if network.resource_claim is not None:
                yield network.resource_claim.claim_name, network.resource_claim.request_name


def _crash(vmi: VirtualMachineInstance, gates: Gates) -> RenderError | None:
    """The error where virt-controller crashes: before 1.8.3 on a DRA GPU without claimName or requestName (K-4.6)."""
    if not V1_6_0 <= gates.version < V1_8_3 or GPUS_WITH_DRA not in gates:
        return None
    for index, gpu in enumerate(vmi.spec.domain.devices.gpus):
        missing = "claimName" if gpu.claim_name is None else "requestName" if gpu.request_name is None else ""
        if gpu.is_dra and missing:
            text = (
                f"KubeVirt {gates.version} crashes on GPU {gpu.name}, which has no "
                f"{missing}; give it one, or use KubeVirt 1.8.3 or newer"
            )
            return RenderError(RENDERER_CRASHES, text, f"spec.domain.devices.gpus[{index}].{missing}")
    return None


# --- device plugins ---


def _plugin_counts(vmi: VirtualMachineInstance) -> Quantities:
    """The number of devices of each plugin resource. A device that also names a claim gets neither (K-4.7)."""
    devices = vmi.spec.domain.devices
    counts: dict[str, int] = {}
    for device in (*devices.gpus, *devices.host_devices):
        if device.device_name and not device.names_claim:
            counts[device.device_name] = counts.get(device.device_name, 0) + 1
    return {name: Quantity.from_number(count) for name, count in counts.items()}


def _not_permitted(
    vmi: VirtualMachineInstance, gates: Gates, permitted: PermittedHostDevices | None
) -> RenderError | None:
    """The error that names every device whose resource is not listed (K-4.8)."""
    if permitted is None:
        return None
    listed = {pci.resource_name for pci in permitted.pci_host_devices}
    listed |= {mdev.resource_name for mdev in permitted.mediated_devices} | {usb.resource_name for usb in permitted.usb}
    devices = vmi.spec.domain.devices
    faults: list[tuple[str, str]] = []
    for index, gpu in enumerate(devices.gpus):
        skipped = GPUS_WITH_DRA in gates and (gpu.names_claim or gates.version < V1_9_0)
        if not skipped and (gpu.device_name or "") not in listed:
            faults.append((f"gpus[{index}]", f"GPU {gpu.device_name or ''}"))
    for index, device in enumerate(devices.host_devices):
        skipped = HOST_DEVICES_WITH_DRA in gates and device.names_claim and gates.version >= V1_9_0
        if not skipped and (device.device_name or "") not in listed:
            faults.append((f"hostDevices[{index}]", f"HostDevice {device.device_name or ''}"))
    if not faults:
        return None
    text = " ".join(f"{device} is not permitted in permittedHostDevices configuration" for _, device in faults)
    return RenderError(NOT_PERMITTED, text, f"spec.domain.devices.{faults[0][0]}")


# --- memory and the devices every launcher needs ---


def memory_overhead(vmi: VirtualMachineInstance, gates: Gates) -> Quantity:
    """Bytes that the pod needs beside the guest's memory (K-4.9): KubeVirt's processes (fixed, per vCPU, page
    tables), what the guest has, 1Gi once with any device that is passed through, and the VMI's own
    ``reservedOverhead.addedOverhead`` (1.8+). The ratio by which a cluster's configuration multiplies it isn't
    applied."""
    spec = vmi.spec
    qemu = 50 if gates.version >= MAIN else 30
    mebibytes = 25 + 100 + 25 + 40 + qemu  # launcher monitor, launcher, virtlogd, virtqemud, QEMU
    mebibytes += 8 + 8 * _counted_vcpus(vmi)  # I/O thread and vCPUs
    mebibytes += _guest_overhead(vmi) + _probe_overhead(vmi)
    total = mebibytes * MEBIBYTE
    if "memory" in spec.domain.resources.requests:
        total += spec.domain.resources.requests["memory"].value() // 512  # page tables
    overhead = Quantity.from_number(total, "BinarySI")
    reserved = spec.domain.memory.reserved_overhead if spec.domain.memory else None
    if gates.version >= V1_8_0 and reserved is not None and reserved.added_overhead is not None:
        overhead += reserved.added_overhead
    return overhead


def has_passthrough(vmi: VirtualMachineInstance) -> bool:
    """Whether any device of the host is passed through, by whatever means."""
    devices = vmi.spec.domain.devices
    return bool(devices.gpus or devices.host_devices) or any(
        interface.sriov is not None for interface in devices.interfaces
    )


def vcpus(vmi: VirtualMachineInstance) -> int:
    """The number of vCPUs: cores x sockets x threads; what is not given counts 1."""
    cpu = vmi.spec.domain.cpu
    return max(1, (cpu.cores or 1) * (cpu.sockets or 1) * (cpu.threads or 1)) if cpu else 1


def _guest_overhead(vmi: VirtualMachineInstance) -> int:
    """MiB of what the guest has."""
    devices = vmi.spec.domain.devices
    dedicated = has_dedicated_cpus(vmi) or _wants_guaranteed(vmi)
    sizes = (
        (32, _extra(devices.model_extra, "autoattachGraphicsDevice") is not False),
        (128, vmi.spec.architecture == "arm64"),  # UEFI pflash
        (1024, has_passthrough(vmi)),
        (1, any(volume.get("downwardMetrics") is not None for volume in vmi.spec.volumes)),
        (256, _is_confidential(vmi)),
        (53, _has_tpm(vmi)),
        (100, dedicated),
    )
    return sum(size for size, counts in sizes if counts)


def _has_tpm(vmi: VirtualMachineInstance) -> bool:
    tpm = _extra(vmi.spec.domain.devices.model_extra, "tpm")
    return isinstance(tpm, Mapping) and tpm.get("enabled") is not False


def _is_confidential(vmi: VirtualMachineInstance) -> bool:
    """SEV, SEV-ES or SEV-SNP; other kinds of confidential guests aren't counted by KubeVirt."""
    security = _extra(vmi.spec.domain.model_extra, "launchSecurity")
    return isinstance(security, Mapping) and (security.get("sev") is not None or security.get("snp") is not None)


def _wants_guaranteed(vmi: VirtualMachineInstance) -> bool:
    """True if the VMI's own resources make a pod of quality of service Guaranteed."""
    resources = vmi.spec.domain.resources
    requests, limits = (
        {name: amount for name, amount in amounts.items() if amount}
        for amounts in (resources.requests, resources.limits)
    )
    memory, cpu = limits.get("memory"), limits.get("cpu")
    return (
        memory is not None
        and cpu is not None
        and requests.get("memory", memory) == memory
        and requests.get("cpu") == cpu
    )


def _probe_overhead(vmi: VirtualMachineInstance) -> int:
    """MiB of ``virt-probe``: once, and for each probe that runs a program."""
    probes = [_extra(vmi.spec.model_extra, name) for name in ("livenessProbe", "readinessProbe")]
    count = sum(isinstance(probe, Mapping) and probe.get("exec") is not None for probe in probes)
    return 100 + 10 * count if count else 0


def _counted_vcpus(vmi: VirtualMachineInstance) -> int:
    """The vCPUs that have memory of their own: without a topology, those of the CPU limit, else of the request."""
    resources = vmi.spec.domain.resources
    amount = resources.limits.get("cpu", resources.requests.get("cpu"))
    return vcpus(vmi) if vmi.spec.domain.cpu is not None or amount is None else max(1, amount.value())


def hypervisor_devices(vmi: VirtualMachineInstance, gates: Gates) -> Quantities:
    """The resources that KubeVirt's own device plugin hands to a launcher (K-4.10)."""
    devices = vmi.spec.domain.devices
    default_interface = not devices.interfaces and devices.autoattach_pod_interface is not False
    wanted = {"devices.kubevirt.io/kvm": ONE}
    if devices.interfaces or default_interface:
        wanted["devices.kubevirt.io/tun"] = ONE
    if default_interface or any(map(_is_virtio, devices.interfaces)):
        wanted["devices.kubevirt.io/vhost-net"] = ONE
    if IOMMUFD in gates:
        wanted["devices.kubevirt.io/iommufd"] = ONE
    return wanted


def _is_virtio(interface: Interface) -> bool:
    """Whether an interface is virtio: also without a model. KubeVirt counts SR-IOV interfaces in."""
    return _extra(interface.model_extra, "model") in (None, "", "virtio")


def _extra(extra: Mapping[str, object] | None, key: str) -> object:
    """A field of the VMI that has no type here, because no device rule needs it."""
    return (extra or {}).get(key)
