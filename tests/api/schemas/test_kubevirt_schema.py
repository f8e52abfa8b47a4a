"""The schemas of VMs and VMIs by release: what each has, requires and forgets."""

from __future__ import annotations

import pytest

from devtools.crds.structural import object_schema
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import MAIN, KubeVirtVersion
from virt_dra.api.schemas.kubevirt_schema import KINDS, schema_of, structural_schema
from virt_dra.api.schemas.walk import LATER, Schema, conforms, faults, unknown_fields
from virt_dra.api.wire import Json

VERSIONS = ("1.5", "1.6", "1.7", "1.8.0", "1.8.3", "1.9", "main")
GPU: Json = {"name": "g", "claimName": "c", "requestName": "r"}


def of(kind: str, version: str | None) -> Schema:
    return schema_of(kind, None if version is None else KubeVirtVersion.parse(version))


def vmi(*, spec: Json | None = None, **devices: object) -> Json:
    """A VMI with devices."""
    head = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "vm"}}
    return {**head, "spec": {"domain": {"devices": devices}, **(spec or {})}}


def reported(raw: Json, version: str | None) -> list[str]:
    schema = of(raw["kind"], version)
    return [str(field) for field in unknown_fields(raw, schema)] + [
        f"{fault.path}: {fault.message}" for fault in faults(raw, schema)
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_usual_vm_conforms_to_every_release(version: str) -> None:
    spec: Json = {
        "architecture": "amd64",
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
                }
            },
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}},
                    }
                ]
            },
        },
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        "dnsConfig": {"nameservers": ["10.0.0.1"], "options": [{"name": "ndots", "value": "2"}]},
        "readinessProbe": {
            "httpGet": {"port": "http", "httpHeaders": [{"name": "a", "value": "b"}]},
            "periodSeconds": 3,
        },
        "livenessProbe": {"tcpSocket": {"port": 80}, "initialDelaySeconds": 1},
        "accessCredentials": [
            {
                "sshPublicKey": {
                    "source": {"secret": {"secretName": "keys"}},
                    "propagationMethod": {"qemuGuestAgent": {"users": ["fedora"]}},
                }
            }
        ],
        "nodeSelector": {"a/b": "c"},
        "networks": [
            {"name": "default", "pod": {}},
            {"name": "more", "multus": {"networkName": "n", "default": False}},
        ],
        "volumes": [
            {"name": "root", "persistentVolumeClaim": {"claimName": "root"}},
            {"name": "init", "cloudInitNoCloud": {"userData": "#cloud-config"}},
            {"name": "data", "dataVolume": {"name": "data", "hotpluggable": True}},
            {"name": "scratch", "emptyDisk": {"capacity": "1Gi"}},
        ],
        "domain": {
            "cpu": {
                "cores": 2,
                "model": "host-passthrough",
                "features": [{"name": "vmx", "policy": "require"}],
                "numa": {},
            },
            "memory": {"guest": "4Gi", "hugepages": {"pageSize": "1Gi"}},
            "resources": {"requests": {"memory": "4Gi", "cpu": 2}},
            "machine": {"type": "q35"},
            "firmware": {"bootloader": {"efi": {"secureBoot": False}}},
            "clock": {"utc": {}, "timer": {"hpet": {"present": False}}, "of another release": {}},
            "features": {
                "acpi": {},
                "hyperv": {"relaxed": {}, "spinlocks": {"spinlocks": 8191}},
                "kvm": {"hidden": True},
            },
            "devices": {
                "disks": [
                    {"name": "root", "disk": {"bus": "virtio"}, "bootOrder": 1},
                    {"name": "init", "cdrom": {"bus": "sata"}},
                ],
                "interfaces": [
                    {"name": "default", "masquerade": {}, "ports": [{"port": 22}]},
                    {"name": "more", "sriov": {}},
                ],
                "gpus": [
                    {
                        "name": "g",
                        "deviceName": "vendor.com/gpu",
                        "virtualGPUOptions": {"display": {"ramFB": {"enabled": True}}},
                    }
                ],
                "tpm": {"persistent": True},
                "rng": {},
                "watchdog": {"name": "w", "i6300esb": {"action": "reset"}},
            },
        },
    }
    machine: Json = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {
            "name": "vm",
            "labels": {"a": "b"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "n", "uid": "u"}],
        },
        "spec": {
            "runStrategy": "Always",
            "instancetype": {"name": "large"},
            "dataVolumeTemplates": [
                {
                    "metadata": {"name": "root", "anything": 1},
                    "spec": {
                        "source": {"http": {"url": "https://example.com/disk"}},
                        "storage": {"resources": {"requests": {"storage": "10Gi"}}, "accessModes": ["ReadWriteOnce"]},
                    },
                }
            ],
            "template": {"metadata": {"labels": {"kubevirt.io/vm": "vm"}, "anything": 1}, "spec": spec},
        },
    }
    assert reported(machine, version) == []
    assert conforms(machine, of("VirtualMachine", version))
    instance = {**machine, "kind": "VirtualMachineInstance", "spec": spec}
    assert reported(instance, version) == []


@pytest.mark.parametrize(
    ("raw", "version", "said"),
    [
        (vmi(gpu=[GPU]), "1.9", ['unknown field "spec.domain.devices.gpu", did you mean "gpus"?']),
        (vmi(gpus=[{"name": "g", "claim": {"name": "c"}}]), "1.9", [
            'unknown field "spec.domain.devices.gpus[0].claim", did you mean "claimName"?'
        ]),
        (vmi(gpus=[{"name": "g", "claim": {"name": "c", "reqeust": "r"}}]), None, [
            'unknown field "spec.domain.devices.gpus[0].claim.reqeust", did you mean "request"?'
        ]),
        (vmi(spec={"networks": [{"name": "n", "resourceClaim": {}}]}), "1.8", [
            'unknown field "spec.networks[0].resourceClaim"; it exists since KubeVirt 1.9'
        ]),
        (vmi(spec={"networks": [{"name": "n", "resourceClaim": {}}]}), "1.9", []),
        (vmi(spec={"resourceClaims": [{"name": "c"}]}), "1.5", [
            'unknown field "spec.resourceClaims"; it exists since KubeVirt 1.6'
        ]),
        (vmi(gpus=[GPU]), "1.5", [
            'unknown field "spec.domain.devices.gpus[0].claimName"; it exists since KubeVirt 1.6',
            'unknown field "spec.domain.devices.gpus[0].requestName"; it exists since KubeVirt 1.6',
            "spec.domain.devices.gpus[0].deviceName: Required value",
        ]),
        (vmi(spec={"resourceClaims": [{"name": "c"}, {"name": "c"}]}), "1.7", [
            'spec.resourceClaims[1]: Duplicate value: {"name":"c"}'
        ]),
        (vmi(spec={"resourceClaims": [{"name": "c", "source": {}}]}), "1.9", ['unknown field '
'"spec.resourceClaims[0].source"']),
        (vmi(gpus=[{"deviceName": "d"}]), "1.9", ["spec.domain.devices.gpus[0].name: Required value"]),
        (vmi(gpus=[{"name": "", "deviceName": "d"}]), "1.9", []),
        ({**vmi(), "spec": {}}, "1.9", ["spec.domain: Required value"]),
        ({**vmi(), "spec": {}}, None, []),
        ({**vmi(), "spec": {"domain": {"memroy": {"guest": "1Gi"}}}}, None, ['unknown field "spec.domain.memroy", did '
'you mean "memory"?']),
        ({**vmi(), "status": {"deviceStatus": {}}}, "1.8", ['unknown field "status.deviceStatus"']),
        ({**vmi(), "status": {"deviceStatus": {}}}, "1.7", []),
    ],
)  # fmt: skip
def test_what_a_release_says(raw: Json, version: str | None, said: list[str]) -> None:
    assert reported(raw, version) == said


@pytest.mark.parametrize("kind", [VirtualMachine, VirtualMachineInstance])
def test_every_field_that_we_read_is_known(kind: type[VirtualMachine] | type[VirtualMachineInstance]) -> None:
    ours = object_schema(kind, {}, ())
    assert sorted(_missing(ours, structural_schema(kind.KIND, MAIN), "")) == (
        ["status.deviceStatus"] if kind is VirtualMachineInstance else []
    )


def _missing(ours: Json, theirs: Json, path: str) -> list[str]:
    paths = []
    for name, inner in ours.get("properties", {}).items():
        where = f"{path}.{name}".lstrip(".")
        if name in theirs.get("properties", {}):
            paths += _missing(inner, theirs["properties"][name], where)
        elif not theirs.get("x-kubernetes-preserve-unknown-fields"):
            paths.append(where)
    return paths + (_missing(ours["items"], theirs["items"], f"{path}[]") if "items" in ours else [])


@pytest.mark.parametrize("kind", KINDS)
def test_no_api_server_sees_what_is_only_ours(kind: str) -> None:
    todo: list[object] = [structural_schema(kind, KubeVirtVersion.parse("1.5"))]
    while todo:
        schema_ = todo.pop()
        if isinstance(schema_, dict):
            assert LATER not in schema_
            todo += schema_.values()
