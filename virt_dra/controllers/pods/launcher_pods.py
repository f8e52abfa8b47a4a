"""The launcher pod of a VMI: rendered, patched into a given pod, and created where it is missing (K-4).

The pod carries what placement and devices need; disks, and what else only a real launcher image reads, are not in it.
Decisions: docs/decisions/0006-admission.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from virt_dra.api.core_v1 import (
    Affinity,
    Container,
    EnvVar,
    Pod,
    PodReadinessGate,
    PodResourceClaim,
    PodSpec,
    ResourceClaimReference,
    ResourceRequirements,
    Volume,
)
from virt_dra.api.integration.dedicated_cpus import CPU_MANAGER_LABEL, emulator_threads, has_dedicated_cpus
from virt_dra.api.kubevirt_v1 import (
    LAUNCHER,
    LAUNCHER_LABEL,
    VM_NAME_LABEL,
    PermittedHostDevices,
    VirtualMachineInstance,
)
from virt_dra.api.kubevirt_versions import SIDECAR, V1_9_0, Gates
from virt_dra.api.meta import ObjectMeta, controller_reference
from virt_dra.api.quantity import Quantity
from virt_dra.api.wire import Json, WireError
from virt_dra.cluster.port import Reader, Writer
from virt_dra.controllers.pods.current_pod import CREATED_BY_LABEL, EPHEMERAL_ANNOTATION, launcher_pods_of
from virt_dra.controllers.pods.launcher_resources import (
    BAD_AFFINITY,
    BAD_HOOK_SIDECARS,
    NO_COMPUTE_CONTAINER,
    Fragment,
    RenderError,
    fragment,
    hypervisor_devices,
    memory_overhead,
    vcpus,
)

COMPUTE = "compute"
"""The container that runs QEMU. It is found by this name, never by its position (K-4.3)."""
OVERHEAD_ANNOTATION = "kubevirt.io/memory-overhead-bytes"
HOOK_SIDECARS_ANNOTATION = "hooks.kubevirt.io/hookSidecars"
_NOT_COPIED = (
    "kubectl.kubernetes.io",
    "kubevirt.io/storage-observed-api-version",
    "kubevirt.io/latest-observed-api-version",
)
_MAX_LABEL = 63
_NO_MEMORY = Quantity("0")


@dataclass(frozen=True)
class LauncherOptions:
    """What a cluster says about launcher pods. ``default_architecture``: of VMIs that name none.
    ``require_kubevirt_nodes``: only nodes labelled ``kubevirt.io/schedulable=true``, by virt-handler, and of the VMI's
    architecture. ``hypervisor_devices``: ask for ``devices.kubevirt.io/...``, which KubeVirt's own device plugin
    provides (K-4.10)."""

    image: str = LAUNCHER
    non_root: bool = True
    default_architecture: str = "amd64"
    require_kubevirt_nodes: bool = True
    hypervisor_devices: bool = True


DEFAULT_OPTIONS = LauncherOptions()


# --- rendering ---


def render(
    vmi: VirtualMachineInstance,
    gates: Gates,
    permitted_host_devices: PermittedHostDevices | None = None,
    options: LauncherOptions = DEFAULT_OPTIONS,
) -> Pod | RenderError:
    """The complete pod, not yet named (K-4.1 to K-4.11), or why there is none."""
    devices = fragment(vmi, gates, permitted_host_devices)
    if isinstance(devices, RenderError):
        return devices
    sidecars = _hook_sidecars(vmi, gates)
    if isinstance(sidecars, RenderError):
        return sidecars
    affinity = _affinity(vmi)
    if isinstance(affinity, RenderError):
        return affinity
    spec = PodSpec(
        containers=(_compute(vmi, gates, devices, options), *sidecars),
        restart_policy="Never",
        readiness_gates=(PodReadinessGate(condition_type="kubevirt.io/virtual-machine-unpaused"),),
        enable_service_links=False,
        automount_service_account_token=any(volume.get("serviceAccount") for volume in vmi.spec.volumes),
        node_selector=_node_selector(vmi, options),
        hostname=_host_name(vmi),
    )
    if volumes := _claimed_volumes(vmi):
        spec = spec.with_(volumes=volumes)
    if devices.resource_claims:
        spec = spec.with_(resource_claims=devices.resource_claims)
    if vmi.spec.tolerations:
        spec = spec.with_(tolerations=vmi.spec.tolerations)
    if vmi.spec.topology_spread_constraints:
        spec = spec.with_(topology_spread_constraints=vmi.spec.topology_spread_constraints)
    if affinity is not None:
        spec = spec.with_(affinity=affinity)
    return Pod(metadata=_metadata(vmi, gates), spec=spec)


def _metadata(vmi: VirtualMachineInstance, gates: Gates) -> ObjectMeta:
    """The pod's labels, annotations and owner (K-4.1, K-4.2)."""
    name, uid = vmi.name, vmi.metadata.uid
    labels = vmi.metadata.labels | {
        LAUNCHER_LABEL: LAUNCHER,
        CREATED_BY_LABEL: uid,
        VM_NAME_LABEL: _host_name(vmi),
        "vmi.kubevirt.io/id": _label_of(name),
    }
    copied = {key: value for key, value in vmi.metadata.annotations.items() if not key.startswith(_NOT_COPIED)}
    annotations = {"kubevirt.io/domain": name} | copied | {"kubectl.kubernetes.io/default-container": COMPUTE}
    if gates.version >= V1_9_0:
        annotations[OVERHEAD_ANNOTATION] = str(memory_overhead(vmi, gates).value())
    return ObjectMeta(
        generate_name=f"virt-launcher-{name}-",
        namespace=vmi.namespace,
        labels=labels,
        annotations=annotations,
        owner_references=(controller_reference(vmi, blocks_deletion=True),),
    )


def _label_of(name: str) -> str:
    """A VMI's name as a label value: longer ones are cut and made unique by a hash."""
    if len(name) <= _MAX_LABEL:
        return name
    digest = hashlib.sha1(name.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()[:8]
    return f"{name[: _MAX_LABEL - 9]}-{digest}"


def _host_name(vmi: VirtualMachineInstance) -> str:
    """The guest's host name: the VMI's own or its name, up to the first dot, as a DNS label."""
    own = (vmi.spec.model_extra or {}).get("hostname")
    name = own if isinstance(own, str) and own else vmi.name
    return name.split(".")[0][:_MAX_LABEL].rstrip("-")


def _node_selector(vmi: VirtualMachineInstance, options: LauncherOptions) -> dict[str, str]:
    own = dict(vmi.spec.node_selector)
    if not options.require_kubevirt_nodes:
        return own
    return own | {
        "kubevirt.io/schedulable": "true",
        "kubernetes.io/arch": vmi.spec.architecture or options.default_architecture,
        **({CPU_MANAGER_LABEL: "true"} if has_dedicated_cpus(vmi) else {}),
    }


def _claimed_volumes(vmi: VirtualMachineInstance) -> tuple[Volume, ...]:
    """The volumes that PersistentVolumeClaims serve, which decide where the pod runs (K-4.1). Those that are plugged in
    later aren't the launcher pod's."""
    volumes: list[Volume] = []
    for volume in vmi.spec.volumes:
        claim, data_volume, ephemeral = (
            source if isinstance(source := volume.get(kind), dict) else {}
            for kind in ("persistentVolumeClaim", "dataVolume", "ephemeral")
        )
        below = ephemeral.get("persistentVolumeClaim")
        copied = below.get("claimName") if isinstance(below, dict) else None
        served = claim.get("claimName") or data_volume.get("name") or copied
        name, plugged_in = volume.get("name"), claim.get("hotpluggable") or data_volume.get("hotpluggable")
        if isinstance(name, str) and isinstance(served, str) and served and not plugged_in:
            volumes.append(Volume(name=name, persistent_volume_claim={"claimName": served}))
    return tuple(volumes)


def _affinity(vmi: VirtualMachineInstance) -> Affinity | RenderError | None:
    if vmi.spec.affinity is None:
        return None
    try:
        return Affinity.from_wire(vmi.spec.affinity)
    except WireError as error:
        return RenderError(BAD_AFFINITY, str(error), "spec.affinity")


def _compute(vmi: VirtualMachineInstance, gates: Gates, devices: Fragment, options: LauncherOptions) -> Container:
    command = (
        "/usr/bin/virt-launcher-monitor",
        "--name",
        vmi.name,
        "--uid",
        vmi.metadata.uid,
        "--namespace",
        vmi.namespace,
    )
    return Container(
        name=COMPUTE,
        image=options.image,
        command=(*command, "--run-as-nonroot") if options.non_root else command,
        env=(EnvVar(name="POD_NAME", value_from={"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}),),
        resources=_resources(vmi, gates, devices, options),
        security_context=_security_context(options.non_root),
    )


def _security_context(non_root: bool) -> Json:
    """The security context of the container ``compute`` (K-4.3)."""
    if not non_root:
        return {"runAsUser": 0, "privileged": False, "capabilities": {"add": ["NET_BIND_SERVICE", "SYS_NICE"]}}
    return {
        "runAsUser": 107,
        "runAsGroup": 107,
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
    }


def _resources(
    vmi: VirtualMachineInstance, gates: Gates, devices: Fragment, options: LauncherOptions
) -> ResourceRequirements:
    """Devices, CPU and memory. Resources with fixed counts are in both lists, as the API server would complete them."""
    plugin_devices = hypervisor_devices(vmi, gates) if options.hypervisor_devices else {}
    limits, requests = _cpu_and_memory(vmi, memory_overhead(vmi, gates))
    resources = ResourceRequirements(
        limits=limits | dict(plugin_devices) | dict(devices.limits),
        requests=requests | dict(plugin_devices) | dict(devices.requests),
    )
    return resources.with_(claims=devices.claims) if devices.claims else resources


def _cpu_and_memory(vmi: VirtualMachineInstance, overhead: Quantity) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    """The VMI's own limits and requests, with guest memory, overhead (K-4.9), a tenth of a CPU per vCPU or whole
    ones."""
    domain = vmi.spec.domain
    limits, requests = dict(domain.resources.limits), dict(domain.resources.requests)
    guest = domain.memory.guest if domain.memory else None
    memory = requests.get("memory") or limits.get("memory") or guest or _NO_MEMORY
    page_size = ((domain.memory.hugepages if domain.memory else None) or {}).get("pageSize")
    if isinstance(page_size, str):
        backed = min(guest, memory) if guest else memory
        limits[f"hugepages-{page_size}"] = requests[f"hugepages-{page_size}"] = backed
        memory -= backed
        if "memory" in limits:
            limits["memory"] = max(limits["memory"] - backed, _NO_MEMORY)
    overcommitted = (domain.resources.model_extra or {}).get("overcommitGuestOverhead") is True
    requests["memory"] = memory if overcommitted else memory + overhead
    if "memory" in limits:
        limits["memory"] += overhead
    if has_dedicated_cpus(vmi):
        limits["cpu"] = requests["cpu"] = Quantity.from_number(vcpus(vmi) + emulator_threads(vmi, vcpus(vmi)))
        limits["memory"] = requests["memory"]
    else:
        requests.setdefault("cpu", Quantity(f"{vcpus(vmi) * 100}m"))
    return limits, requests


def _hook_sidecars(vmi: VirtualMachineInstance, gates: Gates) -> tuple[Container, ...] | RenderError:
    """The containers of hook sidecars, one per entry of the annotation, without claims and devices (K-4.11, K-11.4)."""
    text = vmi.metadata.annotations.get(HOOK_SIDECARS_ANNOTATION)
    if not text or SIDECAR not in gates:
        return ()
    subject = f"metadata.annotations[{HOOK_SIDECARS_ANNOTATION}]"
    try:
        listed: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        return RenderError(BAD_HOOK_SIDECARS, f"the list of hook sidecars is not JSON: {error}", subject)
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        return RenderError(BAD_HOOK_SIDECARS, "the list of hook sidecars must be a JSON list of objects", subject)
    fields = ("image", "imagePullPolicy", "command", "args")
    try:
        return tuple(
            Container.from_wire(
                {"name": f"hook-sidecar-{number}"} | {key: entry[key] for key in fields if key in entry}
            )
            for number, entry in enumerate(listed)
        )
    except WireError as error:
        return RenderError(BAD_HOOK_SIDECARS, f"the list of hook sidecars: {error}", subject)


# --- patching ---


def patch_into(
    pod: Pod, vmi: VirtualMachineInstance, gates: Gates, permitted_host_devices: PermittedHostDevices | None = None
) -> tuple[Json, ...] | RenderError:
    """RFC 6902 operations that bring the VMI's device part into a pod; none if the pod has it already (K-4.13). What
    others put there stays, except claims of the same name with another source, and claims of the compute container that
    Kubernetes would refuse beside ours: a whole claim covers its requests (K-3.2)."""
    devices = fragment(vmi, gates, permitted_host_devices)
    if isinstance(devices, RenderError):
        return devices
    position = next((index for index, container in enumerate(pod.spec.containers) if container.name == COMPUTE), None)
    if position is None:
        return RenderError(
            NO_COMPUTE_CONTAINER, "the pod has no container named compute, so it is no launcher pod", "spec.containers"
        )
    have = pod.spec.containers[position].resources
    operations: list[Json] = []
    claims = _with_claims(pod.spec.resource_claims, devices.resource_claims)
    if claims != pod.spec.resource_claims:
        operations.append(_add("/spec/resourceClaims", [claim.to_wire() for claim in claims]))
    changed: Json = {}
    references = _with_references(have.claims, devices.claims)
    if references != have.claims:
        changed["claims"] = [reference.to_wire() for reference in references]
    for name, ours, theirs in (("limits", devices.limits, have.limits), ("requests", devices.requests, have.requests)):
        if not ours.keys() <= theirs.keys():
            changed[name] = {resource: str(quantity) for resource, quantity in (dict(ours) | theirs).items()}
    path = f"/spec/containers/{position}/resources"
    if changed and not pod.spec.containers[position].given("resources"):
        operations.append(_add(path, changed))
    else:
        operations += [_add(f"{path}/{name}", value) for name, value in changed.items()]
    return tuple(operations)


def _add(path: str, value: object) -> Json:
    """An operation ``add``, which also replaces an existing member (RFC 6902, section 4.1)."""
    return {"op": "add", "path": path, "value": value}


def _with_claims(
    have: tuple[PodResourceClaim, ...], wanted: Iterable[PodResourceClaim]
) -> tuple[PodResourceClaim, ...]:
    ours = {claim.name: claim for claim in wanted}
    kept = [ours.get(claim.name, claim) for claim in have]
    names = {claim.name for claim in have}
    return (*kept, *(claim for name, claim in ours.items() if name not in names))


def _with_references(
    have: tuple[ResourceClaimReference, ...], wanted: Iterable[ResourceClaimReference]
) -> tuple[ResourceClaimReference, ...]:
    result = list(have)
    whole = {reference.name for reference in have if not reference.request}
    parts = {(reference.name, reference.request) for reference in have if reference.request}
    covered: set[str] = set()
    for reference in wanted:
        name, request = reference.name, reference.request
        if name in whole or (name, request) in parts:
            continue
        if request:
            parts.add((name, request))
        else:
            whole.add(name)
            covered.add(name)
        result.append(reference)
    return tuple(reference for reference in result if not (reference.request and reference.name in covered))


# --- the controller ---


@dataclass(frozen=True)
class LauncherPodInputs:
    """The VMIs and launcher pods of one namespace, or of all, and the cluster's settings."""

    vmis: tuple[VirtualMachineInstance, ...]
    pods: tuple[Pod, ...]
    gates: Gates
    permitted_host_devices: PermittedHostDevices | None = None
    options: LauncherOptions = field(default=DEFAULT_OPTIONS)


@dataclass(frozen=True)
class CreatePod:
    """Create the pod of a VMI."""

    vmi: VirtualMachineInstance
    pod: Pod


@dataclass(frozen=True)
class CannotRender:
    """A VMI whose pod can't be rendered. Nothing is written; the next pass tries again."""

    vmi: VirtualMachineInstance
    error: RenderError


LauncherPodAction = CreatePod | CannotRender


async def gather(
    reader: Reader,
    gates: Gates,
    *,
    namespace: str = "",
    permitted_host_devices: PermittedHostDevices | None = None,
    options: LauncherOptions = DEFAULT_OPTIONS,
) -> LauncherPodInputs:
    """Read the VMIs and the launcher pods of one namespace, or of all."""
    vmis = await reader.list(VirtualMachineInstance, namespace)
    pods = await reader.list(Pod, namespace, labels=f"{LAUNCHER_LABEL}={LAUNCHER}")
    return LauncherPodInputs(vmis.items, pods.items, gates, permitted_host_devices, options)


def plan(inputs: LauncherPodInputs) -> tuple[LauncherPodAction, ...]:
    """An action for each VMI that needs a pod: it is neither finished nor being deleted and owns none yet. A finished
    pod is not replaced: its VMI finishes with it. A pod that only provisions storage doesn't count (K-5.1)."""
    by_owner: dict[str, list[Pod]] = {}
    for pod in inputs.pods:
        for uid in {owner.uid for owner in pod.metadata.owner_references}:
            by_owner.setdefault(uid, []).append(pod)
    actions: list[LauncherPodAction] = []
    for vmi in inputs.vmis:
        if vmi.metadata.deletion_timestamp is not None or vmi.finished:
            continue
        if any(
            EPHEMERAL_ANNOTATION not in pod.metadata.annotations
            for pod in launcher_pods_of(vmi, by_owner.get(vmi.metadata.uid, ()))
        ):
            continue
        rendered = render(vmi, inputs.gates, inputs.permitted_host_devices, inputs.options)
        actions.append(CannotRender(vmi, rendered) if isinstance(rendered, RenderError) else CreatePod(vmi, rendered))
    return tuple(actions)


async def apply(writer: Writer, actions: Iterable[LauncherPodAction]) -> tuple[Pod, ...]:
    """Create the planned pods; the pods as stored. Raises what the cluster raises."""
    return tuple([await writer.create(action.pod) for action in actions if isinstance(action, CreatePod)])
