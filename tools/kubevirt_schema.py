"""Writes virt_dra/api/schemas/kubevirt_schema.json: the fields of KubeVirt's VirtualMachine and VirtualMachineInstance,
and their types.

    npm pack @kubevirt-ui-ext/kubevirt-api@1.7.0 && tar xzf kubevirt-ui-ext-kubevirt-api-1.7.0.tgz
    python tools/kubevirt_schema.py package/dist/kubevirt/index.d.ts

The package is KubeVirt's OpenAPI document as TypeScript interfaces. What it lacks is added here: fields of newer
releases, what TypeScript can't say (keys of lists, limits, values), and types that it knows as ``object`` only. Names,
types and what is required are taken, nothing else. :mod:`virt_dra.api.schemas.kubevirt_schema` reads the file, and
knows which release has which field.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

TARGET = Path(__file__).parent.parent / "virt_dra" / "api" / "schemas" / "kubevirt_schema.json"
ROOTS = ("VirtualMachine", "VirtualMachineInstance")
Fields = dict[str, str]

_GROUPS = {
    "V1": "",
    "V1beta1": "v1beta1.",
    "V1alpha1": "v1alpha1.",
    "K8sIoApiCoreV1": "core.",
    "K8sIoApimachineryPkgApisMetaV1": "meta.",
}
_PREFIX = re.compile(rf"^({'|'.join(_GROUPS)})(?=[A-Z])")
_INTERFACE = re.compile(r"^interface (\w+)(?: extends [^{]+)? \{\n(.*?)^\}", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(
    r"    /\*\*(?P<comment>.*?)\*/\s*'?(?P<name>[\w.\-]+)'?(?P<optional>\??): (?P<type>[^;{]+|\{[^}]*\});\n", re.DOTALL
)
_SCALARS = {"string": "string", "number": "integer", "boolean": "boolean", "object": "{}"}
_WIRE_NAMES = {"_default": "default", "vSOCKCID": "VSOCKCID"}
"""TypeScript names of fields that are spelt otherwise on the wire."""

# Types and fields that replace or extend those of the package. "!" behind a name: required. Types:
# virt_dra/api/schemas/kubevirt_schema.py.
_MORE: dict[str, Fields] = {
    "Network": {"resourceClaim": "ClaimRequest"},
    "ClaimRequest": {"claimName": "string", "requestName": "string"},
    "Interface": {"portRanges": "[PortRange]"},
    "PortRange": {"protocol!": "string", "start!": "integer", "end!": "integer"},
    "LaunchSecurity": {"snp": "SEVSNP"},
    "SEVSNP": dict.fromkeys(
        ("policy", "vcek", "authorKey", "kernelHashes", "cbitpos", "idBlock", "idAuth", "reducedPhysBits"), "string"
    ),
    "VirtualMachineInstanceSpec": {
        "serviceAccountName": "string",
        "resourceClaims": "[VirtualMachineInstanceResourceClaim] key=name",
        "utilityVolumes": "[UtilityVolume] key=name max=256",
        "topologySpreadConstraints": "[core.TopologySpreadConstraint] key=topologyKey,whenUnsatisfiable",
        "accessCredentials": "[AccessCredential] max=256",
        "networks": "[Network] max=256",
        "volumes": "[Volume] max=256",
    },
    "VirtualMachineInstanceResourceClaim": {
        "name!": "string",
        "resourceClaimName": "string",
        "resourceClaimTemplateName": "string",
    },
    "Devices": {"disks": "[Disk] max=256", "interfaces": "[Interface] max=256"},
    "QemuGuestAgentSSHPublicKeyAccessCredentialPropagation": {"users!": "[string] set"},
    "ReservedOverhead": {"memLock": "string enum=NotRequired|Required"},
    "DomainSpec": {"rebootPolicy": "string enum=Reboot|Terminate"},
    "ResourceRequirements": {"requests": "{quantity}", "limits": "{quantity}"},
    "core.VolumeResourceRequirements": {"requests": "{quantity}", "limits": "{quantity}"},
    "PersistentVolumeClaimInfo": {"capacity": "{quantity}", "requests": "{quantity}"},
    "core.HTTPGetAction": {"port!": "int-or-string"},
    "core.TCPSocketAction": {"port!": "int-or-string"},
    "meta.ManagedFieldsEntry": {"fieldsV1": "any"},
    "VirtualMachineInstanceTemplateSpec": {"metadata": "any"},
    "DataVolumeTemplateSpec": {"metadata": "any", "status": "any"},
    "Clock": {"*": "any"},
    "VirtualMachineCondition": dict.fromkeys(("lastProbeTime", "lastTransitionTime"), "string"),
    "VirtualMachineInstanceCondition": dict.fromkeys(("lastProbeTime", "lastTransitionTime"), "string"),
}


def main(source: Path) -> None:
    types = _interfaces(source.read_text(encoding="utf-8"))
    for name, more in _MORE.items():
        fields = types.setdefault(name, {})
        for field in more:
            name_alone = field.removesuffix("!")
            fields.pop(name_alone, None)
            fields.pop(f"{name_alone}!", None)
        fields.update(more)
    used = _reachable(types)
    lines = [f"  {json.dumps(name)}: {json.dumps(dict(sorted(types[name].items())))}" for name in sorted(used)]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _interfaces(text: str) -> dict[str, Fields]:
    types = {}
    for interface, body in _INTERFACE.findall(text):
        fields: Fields = {}
        for match in _FIELD.finditer(body):
            name = _WIRE_NAMES.get(match["name"], match["name"])
            fields[name + ("" if match["optional"] else "!")] = _type(match["type"].strip(), match["comment"])
        types[_name(interface)] = fields
    return types


def _name(interface: str) -> str:
    return _PREFIX.sub(lambda match: _GROUPS[match[1]], interface)


def _type(text: str, comment: str) -> str:
    if text.startswith("Array<"):
        return f"[{_type(text.removeprefix('Array<').removesuffix('>'), comment)}]"
    if text.startswith("{"):
        return "{" + _type(text.rpartition(":")[2].strip(" ;}\n"), "") + "}"
    if text.endswith("Enum"):
        return "string"
    if text == "string" and "fixed-point representation" in comment:
        return "quantity"
    if text == "string" and "IntOrString" in comment:
        return "int-or-string"
    return _SCALARS.get(text) or _name(text)


def _reachable(types: dict[str, Fields]) -> set[str]:
    seen: set[str] = set()
    todo = list(ROOTS)
    while todo:
        name = todo.pop()
        if name in types and name not in seen:
            seen.add(name)
            todo += [word for kind in types[name].values() for word in re.findall(r"[\w.\-]+", kind.partition(" ")[0])]
    return seen


if __name__ == "__main__":
    main(Path(sys.argv[1]))
