"""What is wrong with a node's devices, as taints for schedulers and as health for kubelets (D-37, D-38). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from node_driver.devices import DeviceKind, PassthroughDevice, PublishedSet
from node_driver.hardware.inventory import Hardware
from node_driver.state.records import ClaimRecord, DeviceRecord, Stage
from node_driver.wire.service import Health, HealthReport
from virt_dra.api.resource_v1 import DeviceAttribute, DeviceTaint


class ConditionReason(StrEnum):
    """Each is the name of a taint below the driver's domain."""

    GONE = "gone"
    """It isn't on its bus any more, or its mdev was removed by somebody else (D-42, D-60)."""
    LINK_DOWN = "link-down"
    """The cable of its network interface, or of its PF's, has no carrier."""
    WRONG_DRIVER = "wrong-driver"
    """A claim has it, and somebody bound it to another driver."""
    OBSTRUCTED = "obstructed"
    """The node uses it (a process, a mounted disk, an interface that is up), or it can't be bound (D-45)."""
    GROUP_SHARED = "group-shared"
    """Another pod has a device of its IOMMU group or card (D-43)."""
    UNCLEAN = "unclean"
    """The last owner's data may still be on it (D-63)."""
    STUCK = "stuck"
    """A change of the host could not be made or put back (D-45, D-46)."""
    WITHDRAWN = "withdrawn"
    """No policy names it any more, while a claim still has it."""
    DRIVER_AWAY = "driver-away"
    """The driver was stopped: nothing can be prepared until it is back (D-18)."""


class TaintEffect(StrEnum):
    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"
    NONE = "None"
    """No taint: an administrator has switched it off."""


_USELESS: Final = (ConditionReason.GONE, ConditionReason.LINK_DOWN)
DEFAULT_EFFECTS: Final[Mapping[ConditionReason, TaintEffect]] = MappingProxyType(
    {
        **dict.fromkeys(ConditionReason, TaintEffect.NO_SCHEDULE),
        **dict.fromkeys(_USELESS, TaintEffect.NO_EXECUTE),
    }
)
"""Only what makes a running VM useless evicts it."""
_UNHEALTHY: Final = frozenset((*_USELESS, ConditionReason.WRONG_DRIVER, ConditionReason.STUCK))
"""What concerns the pod that has the device; the others only keep new pods away."""


@dataclass(frozen=True, slots=True)
class DeviceCondition:
    device: str
    reason: ConditionReason
    message: str


@dataclass(frozen=True, slots=True)
class NodeView:
    """All that conditions depend on, at one moment.

    ``claims``: those in the checkpoint. ``obstacles``: name of a device that no claim has -> what keeps it from being
    prepared. ``links``: address of a function with a network interface that is up -> whether it has a carrier.
    ``unclean``: address -> why it has to be erased first; ``stuck``: address -> why; both as the checkpoint says.
    """

    hardware: Hardware
    claims: tuple[ClaimRecord, ...] = ()
    obstacles: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, bool] = field(default_factory=dict)
    unclean: Mapping[str, str] = field(default_factory=dict)
    stuck: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is published and why it is tainted."""

    published: PublishedSet
    conditions: tuple[DeviceCondition, ...] = ()


def evaluate(published: PublishedSet, view: NodeView, earlier: Mapping[str, PassthroughDevice]) -> Evaluation:
    """The devices that the policy names and those that claims still have, with all conditions.

    ``earlier``: devices as they were published before. A claimed one that no policy names any more, or that vanished,
    stays published until it is unprepared (D-42).
    """
    named = {device.name for device in published.devices}
    holders = _Holders(view.claims)
    kept = [
        # Without what it consumed: the counter set may be gone with the card.
        replace(earlier.get(name) or _described(record), counter_set="", counters={})
        for name, (_, record) in sorted(holders.by_device.items())
        if name not in named
    ]
    whole = replace(published, devices=(*published.devices, *kept))
    conditions = [
        DeviceCondition(device.name, reason, message)
        for device in whole.devices
        for reason, message in _conditions(device, view, holders, named)
    ]
    return Evaluation(whole, tuple(conditions))


def taints(
    evaluation: Evaluation, driver: str, effects: Mapping[ConditionReason, TaintEffect] = DEFAULT_EFFECTS
) -> dict[str, tuple[DeviceTaint, ...]]:
    """The taints of each device that has any. ``effects``: of reasons that an administrator has changed, at least."""
    by_device: dict[str, tuple[DeviceTaint, ...]] = {}
    for condition in evaluation.conditions:
        effect = effects.get(condition.reason, DEFAULT_EFFECTS[condition.reason])
        if effect is not TaintEffect.NONE:
            taint = DeviceTaint(key=f"{driver}/{condition.reason}", effect=effect.value)
            by_device[condition.device] = (*by_device.get(condition.device, ()), taint)
    return by_device


def health_reports(evaluation: Evaluation, pool: str, now: int) -> tuple[HealthReport, ...]:
    """The health of all devices. ``now``: seconds since the epoch."""
    messages: dict[str, list[str]] = {}
    for condition in evaluation.conditions:
        if condition.reason in _UNHEALTHY:
            messages.setdefault(condition.device, []).append(condition.message)
    health = {name: (Health.UNHEALTHY, now, "; ".join(texts)) for name, texts in messages.items()}
    names = (device.name for device in evaluation.published.devices)
    return tuple(HealthReport(pool, name, *health.get(name, (Health.HEALTHY, now))) for name in names)


def driver_away(evaluation: Evaluation) -> Evaluation:
    """The same devices, none of which can be prepared while the driver is away (D-18)."""
    reason, message = ConditionReason.DRIVER_AWAY, "the driver was stopped; it is tainted until the driver runs again"
    away = (DeviceCondition(device.name, reason, message) for device in evaluation.published.devices)
    return replace(evaluation, conditions=(*evaluation.conditions, *away))


class _Holders:
    """Which claim has a device, and which devices that claims have name something exclusive (D-43). Administrators who
    look on hold nothing (D-47)."""

    def __init__(self, claims: Iterable[ClaimRecord]) -> None:
        self.by_device = {
            record.device: (claim, record) for claim in claims for record in claim.devices if not record.admin_access
        }
        self._by_exclusive: dict[str, str] = {}
        """Exclusive name -> the alphabetically first claimed device with it, so that a look doesn't compare every
        device with every claim."""
        for name, (_, record) in sorted(self.by_device.items()):
            for exclusive in record.exclusive:
                self._by_exclusive.setdefault(exclusive, name)

    def neighbour(self, device: PassthroughDevice) -> str:
        """Which claimed device keeps this one from another pod, "" if none does."""
        sharing = {self._by_exclusive[name] for name in device.exclusive if name in self._by_exclusive}
        if not sharing:
            return ""
        claim, record = self.by_device[min(sharing)]
        shared = min(set(device.exclusive).intersection(record.exclusive))
        return f"{record.device} of claim {claim.namespace}/{claim.name} has {shared}, which one pod uses at a time"


def _described(record: DeviceRecord) -> PassthroughDevice:
    """A claimed device of which only the checkpoint is left."""
    attributes = {"kind": DeviceAttribute(string=record.kind.value)}
    return PassthroughDevice(
        record.device, record.kind, record.address, record.members, exclusive=record.exclusive, attributes=attributes
    )


def _conditions(
    device: PassthroughDevice, view: NodeView, holders: _Holders, named: set[str]
) -> Iterator[tuple[ConditionReason, str]]:
    holder = holders.by_device.get(device.name)
    prepared = holder[1] if holder is not None and holder[0].stage is Stage.DONE else None
    if missing := _missing(device, prepared, view.hardware):
        yield ConditionReason.GONE, missing
        return
    if holder is not None and device.name not in named:
        yield ConditionReason.WITHDRAWN, "no policy names it any more; it is published until its claim ends"
    if prepared is not None and (text := _wrong_driver(device, view.hardware)):
        yield ConditionReason.WRONG_DRIVER, text
    if holder is None and device.name in view.obstacles:
        yield ConditionReason.OBSTRUCTED, view.obstacles[device.name]
    if holder is None and (text := holders.neighbour(device)):
        yield ConditionReason.GROUP_SHARED, text
    addresses = dict.fromkeys((device.address, *device.members))
    for reason, causes in ((ConditionReason.UNCLEAN, view.unclean), (ConditionReason.STUCK, view.stuck)):
        if text := next((causes[address] for address in addresses if address in causes), ""):
            yield reason, text
    if text := next(filter(None, (_link_down(address, view) for address in addresses)), ""):
        yield ConditionReason.LINK_DOWN, text


def _missing(device: PassthroughDevice, prepared: DeviceRecord | None, hardware: Hardware) -> str:
    """What of the device isn't there, "" if all is."""
    if device.kind is DeviceKind.MDEV and prepared is not None and prepared.address not in hardware.mdevs:
        return f"mdev {prepared.address} was removed while a claim has it (KubeVirt up to 1.9.0 removes foreign mdevs)"
    for address in dict.fromkeys((device.address, *device.members)):
        if not any(address in present for present in (hardware.functions, hardware.mdevs, hardware.mdev_types)):
            return f"{address} isn't on its bus any more"
    return ""


def _wrong_driver(device: PassthroughDevice, hardware: Hardware) -> str:
    """Which function of a prepared device isn't bound as it was, "" if all are. vGPUs stay with their vendor's."""
    if device.kind is DeviceKind.VGPU:
        return ""
    for function in (hardware.functions[address] for address in device.members if address in hardware.functions):
        if function.driver != device.target_driver:
            now = function.driver or "no driver"
            return f"{function.address} is bound to {now} instead of {device.target_driver}"
    return ""


def _link_down(address: str, view: NodeView) -> str:
    """A VF has the link of its PF: what a VM does with it goes over that cable."""
    function = view.hardware.functions.get(address)
    ports = (function.physical_function if function is not None else "", address)
    down = next((port for port in ports if view.links.get(port) is False), "")
    return f"the link of {down} is down: no carrier" if down else ""
