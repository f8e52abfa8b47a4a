"""The launcher pod without KubeVirt: our launcher, with the VMI in an annotation (0012). Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Final

from virt_dra.api.core_v1 import Container, Pod, Volume, VolumeMount
from virt_dra.api.integration import standalone
from virt_dra.api.integration.paths import (
    ANNOTATIONS_LIMIT,
    PART_OF,
    PART_OF_LABEL,
    metadata_annotation,
    own_pod_annotations,
)
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.kubevirt_versions import Gates
from virt_dra.api.names import byte_length
from virt_dra.api.wire import Json
from virt_dra.controllers.pods.launcher_pods import COMPUTE, LauncherOptions, render
from virt_dra.controllers.pods.launcher_resources import RenderError
from virt_dra.controllers.standalone.networks import files_of

VMI_TOO_LARGE: Final = "VmiTooLarge"
"""The VMI doesn't fit into an annotation of its pod."""

_UID: Final = 107
"""The user that QEMU runs as (K-4.3)."""
_GRACE: Final = 15
"""Seconds that the launcher has after the guest's own grace period."""
_ROOM: Final = 32 * 1024
"""Bytes of annotations that are reserved for the deviceStatus and for other writers."""
LOOSENING_DOMAINS: Final = (
    "container.apparmor.security.beta.kubernetes.io",
    "container.seccomp.security.alpha.kubernetes.io",
    "seccomp.security.alpha.kubernetes.io",
)
"""Domains of annotations that Kubernetes treats as fields of the pod's security context."""
_SUFFIX: Final = "bcdfghjklmnpqrstvwxz2456789"
_PREFIX_LIMIT: Final = 58


@dataclass(frozen=True)
class StandaloneOptions:
    """The options of launcher pods. ``arguments``: of the launcher's command, such as ``("--uri",
    "qemu:///system")``."""

    image: str
    arguments: tuple[str, ...] = ()
    default_architecture: str = "amd64"

    @property
    def launcher(self) -> LauncherOptions:
        return LauncherOptions(
            image=self.image,
            default_architecture=self.default_architecture,
            require_kubevirt_nodes=False,
            hypervisor_devices=False,
        )


def pod_name(vmi: VirtualMachineInstance) -> str:
    """``virt-launcher-<vmi>-<5 characters>``, the same every time: a stale store never leads to a second pod."""
    digest = hashlib.sha256(vmi.metadata.uid.encode("utf-8", "surrogatepass")).digest()
    suffix = "".join(_SUFFIX[byte % len(_SUFFIX)] for byte in digest[:5])
    return f"{f'virt-launcher-{vmi.name}-'[:_PREFIX_LIMIT]}{suffix}"


def standalone_pod(vmi: VirtualMachineInstance, gates: Gates, options: StandaloneOptions) -> Pod | RenderError:
    """The complete pod, named, or why there is none. It is unprivileged, without capabilities or a token: a guest that
    takes over its launcher can't use the API."""
    pod = render(vmi, gates, None, options.launcher)
    if isinstance(pod, RenderError):
        return pod
    ours = _ours(pod)
    kept = {key: value for key, value in pod.metadata.annotations.items() if key not in ours}
    annotations = {**kept, standalone.VMI_ANNOTATION: vmi_annotation(vmi)}
    if sum(byte_length(key) + byte_length(value) for key, value in annotations.items()) > ANNOTATIONS_LIMIT - _ROOM:
        message = (
            "the VMI and its annotations have more than the "
            f"{(ANNOTATIONS_LIMIT - _ROOM) // 1024} KiB that its pod can carry"
        )
        return RenderError(VMI_TOO_LARGE, message, "metadata.annotations")
    metadata = pod.metadata.without("generate_name").with_(
        name=pod_name(vmi), annotations=annotations, labels={**pod.metadata.labels, PART_OF_LABEL: PART_OF}
    )
    grace = vmi.spec.termination_grace_period_seconds
    spec = pod.spec.without("readiness_gates").with_(
        containers=tuple(
            _compute(container, options) if container.name == COMPUTE else _sidecar(container)
            for container in pod.spec.containers
        ),
        automount_service_account_token=False,
        termination_grace_period_seconds=(30 if grace is None else max(grace, 0)) + _GRACE,
        volumes=_volumes(vmi, pod),
        security_context={
            "runAsUser": _UID,
            "runAsGroup": _UID,
            "fsGroup": _UID,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    )
    return pod.with_(metadata=metadata, spec=spec)


def _ours(pod: Pod) -> frozenset[str]:
    """The VMI's annotations that must not reach its pod: only we set them, or they would loosen its security
    context."""
    loosening = (key for key in pod.metadata.annotations if key.partition("/")[0] in LOOSENING_DOMAINS)
    return frozenset((*own_pod_annotations(pod.metadata.annotations), standalone.VMI_ANNOTATION, *loosening))


def vmi_annotation(vmi: VirtualMachineInstance) -> str:
    """The VMI as its launcher gets it: without status and fields that only the API server uses."""
    metadata = vmi.metadata
    kept = {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid}
    mapped = {"labels": metadata.labels, "annotations": _small(metadata.annotations)}
    wire = vmi.to_wire()
    content: Json = {
        "apiVersion": wire["apiVersion"],
        "kind": wire["kind"],
        "metadata": kept | {key: value for key, value in mapped.items() if value},
        "spec": wire.get("spec", {}),
    }
    return json.dumps(content, separators=(",", ":"), sort_keys=True)


def _small(annotations: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if not key.startswith("kubectl.kubernetes.io/")}


def _annotation_file(path: str, annotation: str) -> Json:
    return {"path": path, "fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}


def _volumes(vmi: VirtualMachineInstance, pod: Pod) -> tuple[Volume, ...]:
    networks = (
        _annotation_file(standalone.metadata_file(entry, pair.request), metadata_annotation(pair.claim, pair.request))
        for pair, entry in files_of(vmi, pod).items()
    )
    items = [
        _annotation_file(standalone.VMI_FILE, standalone.VMI_ANNOTATION),
        _annotation_file(standalone.DEVICE_STATUS_FILE, standalone.POD_DEVICE_STATUS_ANNOTATION),
        *networks,
    ]
    info = Volume(name=standalone.INFO_VOLUME, downward_api={"items": items})
    return info, Volume(name=standalone.RUN_VOLUME, empty_dir={})


def _compute(container: Container, options: StandaloneOptions) -> Container:
    ready = f"{standalone.RUN_DIRECTORY}/{standalone.READY_FILE}"
    return container.without("args").with_(
        command=(*standalone.COMMAND, *options.arguments),
        volume_mounts=(
            VolumeMount(name=standalone.INFO_VOLUME, mount_path=standalone.INFO_DIRECTORY, read_only=True),
            VolumeMount(name=standalone.RUN_VOLUME, mount_path=standalone.RUN_DIRECTORY),
        ),
        readiness_probe={"exec": {"command": ["test", "-e", ready]}, "periodSeconds": 2, "failureThreshold": 1},
        termination_message_path=standalone.TERMINATION_MESSAGE_PATH,
        security_context=_UNPRIVILEGED,
    )


def _sidecar(container: Container) -> Container:
    return container.with_(security_context=_UNPRIVILEGED)


_UNPRIVILEGED: Final[Json] = {
    "runAsUser": _UID,
    "runAsGroup": _UID,
    "runAsNonRoot": True,
    "privileged": False,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
