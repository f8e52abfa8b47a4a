"""What the policy of launcher pods (standalone) must say to admit those that the operator makes, and no others.

The policy's rules are in ``manifests/rbac/standalone/operator_limits.yaml``. What they compare a pod with is here: its
variables, made of the pod that :mod:`virt_dra.controllers.standalone.pod` renders. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from virt_dra.api.integration.device_metadata import DIRECT, TEMPLATES
from virt_dra.api.integration.paths import (
    ADDRESSES_DOMAIN,
    DEVICE_STATUS_ANNOTATION,
    INTEGRATION_ANNOTATION,
    METADATA_DOMAIN,
    RETRY_ANNOTATION,
    SHIM_FILE,
)
from virt_dra.api.integration.standalone import COMMAND, METADATA_FOLDER
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.kubevirt_versions import NEWEST, SIDECAR, Gates
from virt_dra.api.policies.pod_defaults import with_core_defaults
from virt_dra.api.wire import Json
from virt_dra.controllers.pods.launcher_pods import HOOK_SIDECARS_ANNOTATION
from virt_dra.controllers.pods.launcher_resources import RenderError
from virt_dra.controllers.standalone.pod import LOOSENING_DOMAINS, StandaloneOptions, standalone_pod

LAUNCHER_POLICY: Final = "virt-dra-operator-launchers"
"""The ValidatingAdmissionPolicy of the pods that the operator may create (standalone)."""

_SPEC_OF_THE_VM: Final = frozenset(
    {"affinity", "hostname", "nodeSelector", "resourceClaims", "terminationGracePeriodSeconds", "tolerations"}
)
"""Fields of a pod's spec that follow the VM's author."""
_CHECKED_ALONE: Final = frozenset({"containers", "volumes"})
_COMPUTE_VARIES: Final = frozenset({"command", "image", "imagePullPolicy", "resources"})
_SIDECAR_VARIES: Final = frozenset({"args", "command", "image", "imagePullPolicy", "name", "resources"})

# What the API server fills into the fields that vary with nobody.
_CONTAINER_DEFAULTS: Final[Json] = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBE_DEFAULTS: Final[Json] = {"timeoutSeconds": 1, "successThreshold": 1}
_FILES_DEFAULTS: Final[Json] = {"defaultMode": 0o644}
_FIELD_DEFAULTS: Final[Json] = {"apiVersion": "v1"}


@dataclass(frozen=True)
class Launcher:
    """What launcher pods are made of, by the operator's arguments; the policy of what it may create must agree with
    them."""

    image: str
    command: tuple[str, ...]
    sidecars: bool


def launcher_of(operator: Json) -> Launcher:
    """The launcher by the operator's Deployment; of repeated arguments the last counts, as it does for the operator."""
    arguments = operator["spec"]["template"]["spec"]["containers"][0]["args"]
    given = [tuple(text.partition("=")[::2]) for text in arguments]
    images = [value for option, value in given if option == "--launcher-image"]
    command = (*COMMAND, *(value for option, value in given if option == "--launcher-argument"))
    gates = [
        [part.strip() for part in gate.partition("=")]
        for option, value in given
        if option == "--kubevirt-gates"
        for gate in value.split(",")
    ]
    sidecars = [not equals or word.lower() == "true" for gate, equals, word in gates if gate == SIDECAR]
    return Launcher(images[-1] if images else "", command, bool(sidecars) and sidecars[-1])


def launcher_variables(launcher: Launcher) -> Mapping[str, str]:
    """Expressions of the policy's variables that follow the operator's arguments, by name."""
    chosen = {"image": launcher.image, "command": list(launcher.command), "sidecars": launcher.sidecars}
    return {name: cel_literal(value) for name, value in chosen.items()}


@cache
def pinned_variables() -> Mapping[str, str]:
    """Expressions of the policy's variables that are the same in every launcher pod of this version, by name: its
    fields as the API server stores them."""
    return {name: cel_literal(value) for name, value in _pinned().items()}


def cel_literal(value: object) -> str:
    """A literal of CEL, which reads JSON's; but values of one map must have one type there."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_text(key)}: dyn({cel_literal(member)})' for key, member in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(cel_literal, value))}]"
    return _text(value)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _pinned() -> Mapping[str, object]:
    spec = _rendered()
    compute, sidecar = (_CONTAINER_DEFAULTS | container for container in spec["containers"])
    compute["readinessProbe"] = _PROBE_DEFAULTS | compute["readinessProbe"]
    compute["env"] = [_with_field_defaults(variable, "valueFrom") for variable in compute["env"]]
    info, run = spec["volumes"]
    items = [{**item, "fieldRef": _FIELD_DEFAULTS | item["fieldRef"]} for item in info["downwardAPI"]["items"]]
    files = _FILES_DEFAULTS | info["downwardAPI"] | {"items": items}
    return {
        "spec": _without(spec, _SPEC_OF_THE_VM | _CHECKED_ALONE),
        "compute": _without(compute, _COMPUTE_VARIES),
        "sidecar": _without(sidecar, _SIDECAR_VARIES),
        "info": info | {"downwardAPI": files},
        "run": run,
        "laterAnnotations": [DEVICE_STATUS_ANNOTATION, INTEGRATION_ANNOTATION, RETRY_ANNOTATION],
        "refusedDomains": [f"{domain}/" for domain in (ADDRESSES_DOMAIN, METADATA_DOMAIN, *LOOSENING_DOMAINS)],
        "metadataPath": f"^{METADATA_FOLDER}/({DIRECT}|{TEMPLATES})/[^/]+/[^/]+/{re.escape(SHIM_FILE)}$",
        "metadataField": rf"^metadata\.annotations\['{re.escape(METADATA_DOMAIN)}/[^']+'\]$",
    }


def _rendered() -> Json:
    """The spec of a launcher pod with a hook sidecar, of a VM that asks for nothing."""
    annotations = {HOOK_SIDECARS_ANNOTATION: '[{"image": "hook"}]'}
    vmi = VirtualMachineInstance.from_wire({"metadata": {"name": "vm", "uid": "uid", "annotations": annotations}})
    pod = standalone_pod(vmi, Gates.for_version(NEWEST, {SIDECAR: True}), StandaloneOptions("launcher"))
    if isinstance(pod, RenderError):
        raise AssertionError(f"a VM that asks for nothing has a pod: {pod.message}")
    spec: Json = with_core_defaults(pod).to_wire()["spec"]
    return spec


def _with_field_defaults(variable: Json, source: str) -> Json:
    return {**variable, source: {"fieldRef": _FIELD_DEFAULTS | variable[source]["fieldRef"]}}


def _without(members: Json, keys: frozenset[str]) -> Json:
    return {key: value for key, value in sorted(members.items()) if key not in keys}
