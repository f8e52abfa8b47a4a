"""What the operator's plans for a VMI's devices are made from, gathered from a model (K-5)."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from virt_dra.api.integration.known_drivers import metadata_writers
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.controllers.devices.inputs import DeviceInputs, allocated_addresses, still_holds
from virt_dra.controllers.devices.options import DEFAULTS, ResolutionOptions
from virt_dra.controllers.pods.current_pod import current_pod
from virt_dra.controllers.sources import addresses_of, claim_keys
from virt_dra.model.cluster import ClusterModel, DerivedValue, ModelIndex
from virt_dra.model.devices import publications
from virt_dra.model.launchers import launchers_of

_HOLDERS: Final = ModelIndex(VirtualMachineInstanceDevices, addresses_of)
_writers: Final = DerivedValue(lambda model: metadata_writers(model.of(DeviceClass)), (DeviceClass,))


def inputs_of(
    vmi: VirtualMachineInstance, model: ClusterModel, now: datetime, options: ResolutionOptions = DEFAULTS
) -> DeviceInputs:
    """The inputs of a VMI of the model, as :func:`virt_dra.controllers.devices.inputs.gather` makes them of an
    operator's sources."""
    launchers = launchers_of(model, vmi.key)
    pod = current_pod(vmi, launchers)
    pods = tuple(candidate for candidate in launchers if not candidate.finished)
    claims = {key: claim for key in claim_keys(vmi, pod) if (claim := model.claims.get(key)) is not None}
    published, vmis = publications(model), model.by_key(VirtualMachineInstance)
    holders = {
        address: tuple(holder.key for holder in _HOLDERS(model, address) if still_holds(holder, vmis.get(holder.key)))
        for address in allocated_addresses(pod, claims, published, options)
    }
    stored = model.by_key(VirtualMachineInstanceDevices).get(vmi.key)
    rules = tuple(model.of(DeviceTaintRule))
    return DeviceInputs(vmi, pods, pod, claims, published, rules, stored, holders, now, options, _writers(model))
