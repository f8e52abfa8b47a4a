"""Applying an instancetype and a preference to a VM's template, in place (K-16.2 to K-16.6). Pure otherwise."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field

from virt_dra.api.kubevirt_v1 import GPU, HostDevice
from virt_dra.api.quantity import Quantity
from virt_dra.api.wire import EMPTY_MAP, Bool, Int, Json, List, Map, Str, Wire

RefusalCause = Literal["FieldValueInvalid", "FieldValueNotFound"]
NOT_FOUND: Final = "FieldValueNotFound"
INVALID: Final = "FieldValueInvalid"


class _CPU(Wire):
    guest: Int = 0
    model: Str | None = None
    dedicated_cpu_placement: Bool | None = Field(default=None, alias="dedicatedCPUPlacement")
    isolate_emulator_thread: Bool | None = None
    numa: Json | None = None
    realtime: Json | None = None
    max_sockets: Int | None = None


class _Memory(Wire):
    guest: Quantity | None = None
    hugepages: Json | None = None
    overcommit_percent: Int = 0
    max_guest: Quantity | None = None


class InstancetypeSpec(Wire):
    cpu: _CPU = _CPU.empty()
    memory: _Memory = _Memory.empty()
    gpus: List[GPU] = ()
    host_devices: List[HostDevice] = ()
    node_selector: Map[Str] | None = None
    scheduler_name: Str = ""
    io_threads_policy: Str | None = Field(default=None, alias="ioThreadsPolicy")
    launch_security: Json | None = None
    annotations: Map[Str] = EMPTY_MAP

    @property
    def lacking(self) -> tuple[str, ...]:
        """The fields that the CRD requires and that are missing: no API server stores such an instancetype."""
        cpu, memory = self.cpu.given("guest"), self.memory.guest is not None
        return (*(() if cpu else ("cpu.guest",)), *(() if memory else ("memory.guest",)))


class _Spread(Wire):
    across: Str | None = None
    ratio: Int | None = None


class _PreferredCPU(Wire):
    preferred_cpu_topology: Str | None = Field(default=None, alias="preferredCPUTopology")
    spread_options: _Spread | None = None


class _PreferredMachine(Wire):
    preferred_machine_type: Str = ""


class _Required(Wire):
    cpu: _CPU | None = None
    memory: _Memory | None = None


class PreferenceSpec(Wire):
    cpu: _PreferredCPU | None = None
    devices: Json | None = None
    machine: _PreferredMachine | None = None
    prefer_spread_socket_to_core_ratio: Int = 0
    preferred_architecture: Str | None = None
    preferred_termination_grace_period_seconds: Int | None = None
    requirements: _Required | None = None
    annotations: Map[Str] = EMPTY_MAP

    @property
    def lacking(self) -> tuple[str, ...]:
        """The required fields that are missing; a preference has none."""
        return ()


@dataclass(frozen=True)
class InstancetypeRefusal:
    """A cause for which KubeVirt's webhook refuses the VM."""

    type: RefusalCause
    message: str
    field: str


# --- applying an instancetype ---


def apply_instancetype(
    template: Json, instancetype: InstancetypeSpec, preference: PreferenceSpec | None
) -> list[InstancetypeRefusal]:
    """Apply the instancetype to the template (K-16.2 to K-16.4); returns the conflicts: fields that both set."""
    spec = template.setdefault("spec", {})
    domain = spec.setdefault("domain", {})
    conflicts = [
        *_applied_node_selector(spec, instancetype),
        *_applied(spec, "schedulerName", instancetype.scheduler_name),
        *_applied_cpu(domain, instancetype.cpu, preference),
        *_applied_memory(domain, instancetype.memory),
        *_applied(domain, "ioThreadsPolicy", instancetype.io_threads_policy, "domain."),
        *_applied(domain, "launchSecurity", instancetype.launch_security, "domain."),
        *_applied_devices(domain, "gpus", instancetype.gpus),
        *_applied_devices(domain, "hostDevices", instancetype.host_devices),
    ]
    annotations = template.setdefault("metadata", {}).setdefault("annotations", {})
    conflicts += [
        f"annotations.{key}" for key, value in instancetype.annotations.items() if annotations.get(key, value) != value
    ]
    annotations |= instancetype.annotations
    rooted = (field if field.startswith("annotations.") else f"spec.template.spec.{field}" for field in conflicts)
    return [
        InstancetypeRefusal(INVALID, f"VM field(s) {field} conflicts with selected instance type", field)
        for field in rooted
    ]


def _applied_node_selector(spec: Json, instancetype: InstancetypeSpec) -> list[str]:
    if instancetype.node_selector is None:
        return []
    if spec.get("nodeSelector") is not None:
        return ["nodeSelector"]
    spec["nodeSelector"] = dict(instancetype.node_selector)
    return []


def _applied(holder: Json, key: str, value: object, root: str = "") -> list[str]:
    if not value:
        return []
    if holder.get(key):
        return [f"{root}{key}"]
    holder[key] = value
    return []


def _applied_devices(domain: Json, key: str, entries: tuple[GPU, ...] | tuple[HostDevice, ...]) -> list[str]:
    """Set the instancetype's list of devices, or return the conflict with the VM's: lists are never joined (K-16.2)."""
    devices = domain.setdefault("devices", {})
    return _applied(devices, key, [entry.to_wire() for entry in entries], "domain.devices.")


def _applied_cpu(domain: Json, wanted: _CPU, preference: PreferenceSpec | None) -> list[str]:
    cpu = domain.get("cpu") or {}
    conflicts = [
        f"domain.resources.{kind}.cpu" for kind in ("requests", "limits") if "cpu" in _quantities(domain, kind)
    ]
    conflicts += [f"domain.cpu.{key}" for key in ("sockets", "cores", "threads") if cpu.get(key)]
    given = (
        ("model", "model", wanted.model),
        ("dedicatedCpuPlacement", "dedicatedCPUPlacement", wanted.dedicated_cpu_placement),
        ("isolateEmulatorThread", "isolateEmulatorThread", wanted.isolate_emulator_thread),
        ("numa", "numa", wanted.numa),
        ("realtime", "realtime", wanted.realtime),
    )
    conflicts += [f"domain.cpu.{named}" for key, named, value in given if value is not None and _is_set(cpu.get(key))]
    if conflicts:
        return conflicts
    domain["cpu"] = (
        cpu | {key: value for key, _, value in given if value is not None} | _topology(wanted.guest, preference)
    )
    if wanted.max_sockets is not None:
        domain["cpu"]["maxSockets"] = wanted.max_sockets
    return []


def _is_set(value: object) -> bool:
    """False for Go's zero values; an empty object is set."""
    return value is not None and value is not False and value != ""


def _quantities(domain: Json, kind: str) -> Json:
    return (domain.get("resources") or {}).get(kind) or {}


def _topology(vcpus: int, preference: PreferenceSpec | None) -> Json:
    """Sockets, cores and threads for a number of vCPUs, as the preference spreads them (K-16.3)."""
    cores = sockets = threads = 1
    if vcpus != 1:
        match _preferred_topology(preference):
            case "cores":
                cores = vcpus
            case "sockets" | "any":
                sockets = vcpus
            case "threads":
                threads = vcpus
            case "spread":
                ratio, across = _spread(preference)
                if across == "SocketsCores":
                    cores, sockets = ratio, vcpus // ratio
                elif across == "CoresThreads":
                    threads, cores = ratio, vcpus // ratio
                elif across == "SocketsCoresThreads":
                    threads, cores, sockets = 2, ratio, vcpus // 2 // ratio
    return {"cores": cores, "sockets": sockets, "threads": threads}


def _preferred_topology(preference: PreferenceSpec | None) -> str:
    """``sockets``, ``cores``, …; older names begin with ``prefer``."""
    choice = preference.cpu.preferred_cpu_topology if preference is not None and preference.cpu is not None else None
    return choice.removeprefix("prefer").lower() if choice else "sockets"


def _spread(preference: PreferenceSpec | None) -> tuple[int, str]:
    """The preference's spread ratio, and the topology levels across which vCPUs are spread."""
    if preference is None:
        return 2, "SocketsCores"
    options = preference.cpu.spread_options if preference.cpu is not None else None
    options = options or _Spread.empty()
    ratio = preference.prefer_spread_socket_to_core_ratio or 2 if options.ratio is None else options.ratio
    return max(ratio, 1), options.across or "SocketsCores"


def spread_conflicts(
    instancetype: InstancetypeSpec | None, preference: PreferenceSpec | None
) -> list[InstancetypeRefusal]:
    """A refusal if the preference's spread ratio doesn't divide the instancetype's vCPUs (K-16.3)."""
    if instancetype is None or _preferred_topology(preference) != "spread":
        return []
    guest, (ratio, across) = instancetype.cpu.guest, _spread(preference)
    of_ratio = f"Spec.PreferSpreadSocketToCoreRatio or Spec.CPU.PreferSpreadOptions.Ratio of {ratio}"
    problem = ""
    if across == "SocketsCores" and guest % ratio:
        problem = f"the {of_ratio} provided by the preference"
    elif across == "CoresThreads" and guest % ratio:
        problem = f"the number of threads per core {ratio}"
    elif across == "SocketsCoresThreads" and (guest % 2 or guest // 2 % ratio):
        problem = f"the number of threads per core 2 and {of_ratio}"
    if not problem:
        return []
    message = f"{guest} vCPUs provided by the instance type are not divisible by {problem}"
    return [InstancetypeRefusal(INVALID, message, "instancetype.spec.cpu.guest")]


def _applied_memory(domain: Json, wanted: _Memory) -> list[str]:
    """Set the domain's memory, or return the first conflict only, as KubeVirt does (K-16.4)."""
    memory = domain.get("memory") or {}
    if memory.get("guest") is not None:
        return ["domain.memory.guest"]
    for key, value in (("hugepages", wanted.hugepages), ("maxGuest", wanted.max_guest)):
        if memory.get(key) is not None and value is not None:
            return [f"domain.memory.{key}"]
    for kind in ("requests", "limits"):
        if "memory" in _quantities(domain, kind):
            return [f"domain.resources.{kind}.memory"]
    guest = wanted.guest if wanted.guest is not None else Quantity("0")
    memory["guest"] = str(guest)
    if wanted.hugepages is not None:
        memory["hugepages"] = wanted.hugepages
    if wanted.max_guest is not None:
        memory["maxGuest"] = str(wanted.max_guest)
    domain["memory"] = memory
    if wanted.overcommit_percent > 0:
        resources = domain.get("resources") or {}
        asked = Quantity.from_number(_overcommitted(guest.value(), wanted.overcommit_percent), guest.format)
        domain["resources"] = {**resources, "requests": {**(resources.get("requests") or {}), "memory": str(asked)}}
    return []


def _overcommitted(memory: int, percent: int) -> int:
    """The memory request, computed with single precision in each step, as KubeVirt does."""
    share = _single(1 - _single(_single(percent) / 100))
    return int(_single(_single(memory) * share))


def _single(number: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", min(number, 3e38)))[0])


# --- applying a preference ---


def apply_preference(template: Json, preference: PreferenceSpec) -> None:
    """Set fields from the preference that neither the VM nor its instancetype sets (K-16.5)."""
    spec = template.setdefault("spec", {})
    domain = spec.setdefault("domain", {})
    if preference.machine is not None and preference.machine.preferred_machine_type:
        machine = domain.get("machine") or {}
        domain["machine"] = {**machine, "type": machine.get("type") or preference.machine.preferred_machine_type}
    if (
        preference.preferred_termination_grace_period_seconds is not None
        and spec.get("terminationGracePeriodSeconds") is None
    ):
        spec["terminationGracePeriodSeconds"] = preference.preferred_termination_grace_period_seconds
    if preference.preferred_architecture and not spec.get("architecture"):
        spec["architecture"] = preference.preferred_architecture
    devices = domain.setdefault("devices", {})
    for name in ("GraphicsDevice", "MemBalloon", "PodInterface", "SerialConsole", "InputDevice"):
        choice = (preference.devices or {}).get(f"preferredAutoattach{name}")
        if isinstance(choice, bool) and devices.get(f"autoattach{name}") is None:
            devices[f"autoattach{name}"] = choice
    metadata = template.setdefault("metadata", {})
    metadata["annotations"] = {**preference.annotations, **(metadata.get("annotations") or {})}


def unmet_requirement(
    template: Json, instancetype: InstancetypeSpec | None, preference: PreferenceSpec
) -> InstancetypeRefusal | None:
    """The first requirement of the preference that the instancetype, or the VM's own memory, doesn't meet (K-16.6)."""
    required = preference.requirements
    if required is None:
        return None
    if required.cpu is not None and instancetype is not None and instancetype.cpu.guest < required.cpu.guest:
        have = f"{instancetype.cpu.guest} vCPU provided by instance type"
        return _lacking(f"CPU resources of {have}, preference requires {required.cpu.guest} vCPU", "spec.instancetype")
    wanted = required.memory.guest if required.memory is not None else None
    if wanted is None:
        return None
    if instancetype is not None:
        have_memory = instancetype.memory.guest if instancetype.memory.guest is not None else Quantity("0")
        provider, place = "instance type", "spec.instancetype"
    else:
        given = (template["spec"]["domain"].get("memory") or {}).get("guest")
        if given is None:
            return None
        have_memory, provider, place = Quantity.from_json(given), "VirtualMachine", "spec.template.spec.domain.memory"
    if have_memory < wanted:
        return _lacking(
            f"Memory resources of {have_memory} provided by {provider}, preference requires {wanted}", place
        )
    return None


def _lacking(resource: str, place: str) -> InstancetypeRefusal:
    return InstancetypeRefusal(NOT_FOUND, f"failure checking preference requirements: insufficient {resource}", place)
