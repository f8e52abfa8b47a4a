"""The number of nodes on which a device profile fits now, and the profile's status. Pure. The question is that of a
waiting pod, to the same worker and view (:mod:`.pending`), with the claim of a VM that asks for the profile once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from virt_dra.api.core_v1 import Container, Pod, PodResourceClaim, PodSpec
from virt_dra.api.counting import counted
from virt_dra.api.defaults import defaulted
from virt_dra.api.kubevirt_v1 import VirtualMachineInstanceSpec
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.profiles.asking import AskedProfile
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile, DeviceProfileStatus
from virt_dra.api.profiles.expansion import VmAsking, expand_profiles
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.controllers.events import shortened
from virt_dra.controllers.operator.explanation_worker import ExplanationResult
from virt_dra.controllers.operator.pending import NOT_DECIDED
from virt_dra.controllers.pods.launcher_pods import COMPUTE

PROFILE_INVALID: Final = "DeviceProfileInvalid"
"""No VM can ask for the profile: it breaks Kubernetes' rules for claims, or those of its names."""
_PLACE: Final = "DeviceProfile"
"""The namespace of the question's pod and claim. It is no valid one, so that no object of the cluster has their key."""
_MESSAGE: Final = 4096


@dataclass(frozen=True)
class ProfileFit:
    """The answer for a profile. ``nodes``: on how many of those tried it fits; None if that isn't known, or the profile
    can't be used. ``reason`` and ``message``: why none, or why it isn't known."""

    nodes: int | None
    reason: str = ""
    message: str = ""


def profile_key(name: str) -> str:
    """The key of a profile among those of VMIs, which have a namespace."""
    return f"/{name}"


def question(profile: DeviceProfile) -> tuple[Pod, ResourceClaim]:
    """The pod and its claim. Raises :class:`~virt_dra.api.profiles.asking.RefusedLineError` for an invalid profile."""
    asked = (AskedProfile("", profile.name, 1),)
    expanded = expand_profiles(
        VirtualMachineInstanceSpec.empty(), asked, {profile.name: profile}, VmAsking(profile.name, _PLACE)
    )
    (template,) = expanded.templates
    metadata = ObjectMeta(name=profile.name, namespace=_PLACE)
    entry = PodResourceClaim(name=profile.name, resource_claim_name=profile.name)
    pod = Pod(metadata=metadata, spec=PodSpec(containers=(Container(name=COMPUTE),), resource_claims=(entry,)))
    return pod, defaulted(ResourceClaim(metadata=metadata, spec=template.spec.spec))


def fit_in(answer: ExplanationResult, nodes: int) -> ProfileFit:
    """The fit in a worker's answer. ``nodes``: of the cluster, of which the worker may have tried a part."""
    condition = answer.condition
    if answer.too_slow:
        return ProfileFit(None, NOT_DECIDED, "evaluating the profile's devices took too long")
    if answer.fitting is None:
        return ProfileFit(None, condition.reason, condition.message)
    if answer.fitting:
        part = f"of {answer.tried} of the cluster's {counted(nodes, 'node')}" if answer.tried < nodes else ""
        return ProfileFit(answer.fitting, message=part)
    return ProfileFit(0, condition.reason, condition.message)


def with_status(profile: DeviceProfile, vms: int, fit: ProfileFit) -> DeviceProfile:
    """The profile with the fields of its status that are the operator's. ``vms``: how many ask for it."""
    ours = ("vms", "fitting_nodes", "reason", "message")
    fields = {
        "fitting_nodes": fit.nodes,
        "reason": fit.reason or None,
        "message": shortened(fit.message, _MESSAGE) or None,
    }
    kept = profile.status.without(*ours)
    status: DeviceProfileStatus = kept.with_(
        vms=vms, **{name: value for name, value in fields.items() if value is not None}
    )
    return profile.with_(status=status)
