"""What ``admit`` says is what a real API server answers that has KubeVirt's kinds and webhooks: who refuses, for what,
in which field.

The kinds have the schemas that ``admit`` knows; that these are KubeVirt's is tested by
tests/api/schemas/test_kubevirt_schema.py. Here it is pruning, strict validation, types, list keys, the order of the
stages, and what is left for each of them.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from devtools.agents.kubevirt_installation import kubevirt_installed
from devtools.agents.worlds import eventually
from devtools.cluster.admin_requests import RequestError
from devtools.cluster.control_plane import ControlPlane
from virt_dra.api.kubevirt_versions import KNOWN_GATES, Gates, KubeVirtVersion
from virt_dra.api.wire import Json
from webhooks.admission import admit
from webhooks.api_server import FieldValidation
from webhooks.verdict import Verdict

pytestmark = pytest.mark.control_plane

VMI: Json = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstance",
    "metadata": {"name": "vm", "labels": {"app": "a"}, "annotations": {"a/b": "c"}},
    "spec": {
        "architecture": "amd64",
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}, {"name": "d", "resourceClaimName": "o"}],
        "networks": [{"name": "default", "pod": {}}],
        "volumes": [{"name": "root", "emptyDisk": {"capacity": "1Gi"}}],
        "domain": {
            "cpu": {"cores": 2},
            "memory": {"guest": "2Gi"},
            "resources": {"requests": {"cpu": 1, "memory": "2Gi"}},
            "devices": {
                "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
                "interfaces": [{"name": "default", "masquerade": {}}],
                "gpus": [{"name": "g", "claimName": "c", "requestName": "r"}],
                "hostDevices": [{"name": "h", "claimName": "d", "requestName": "r"}],
            },
        },
    },
}
SHOWN: Json = {"display": {"ramFB": {}}}
Change = Callable[[Json, random.Random], None]


def devices(vmi: Json) -> Json:
    devices: Json = vmi["spec"]["domain"]["devices"]
    return devices


def any_device(vmi: Json, chance: random.Random) -> Json:
    owner: Json = chance.choice([*devices(vmi)["gpus"], *devices(vmi)["hostDevices"]])
    return owner


def odd(chance: random.Random) -> Any:
    return copy.deepcopy(chance.choice([None, "", "x", 1, True, [], {}, ["x"], {"x": 1}, [None], [{"x": 1}]]))


def members(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every member and item of a value, at any depth, as (owner, key)."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(pairs):
        yield value, key
        yield from members(item)


def something_else(vmi: Json, chance: random.Random) -> None:
    owner, key = chance.choice(list(members(vmi["spec"])))
    owner[key] = odd(chance)


def something_gone(vmi: Json, chance: random.Random) -> None:
    owner, key = chance.choice(list(members(vmi["spec"])))
    del owner[key]


def something_unknown(vmi: Json, chance: random.Random) -> None:
    owners = [owner for owner, _ in members(vmi["spec"]) if isinstance(owner, dict)]
    chance.choice(owners)[chance.choice(["memroy", "gpu", "claim", "source", "a b"])] = odd(chance)


def something_twice(vmi: Json, chance: random.Random) -> None:
    lists = [item for owner, key in members(vmi["spec"]) if isinstance(item := owner[key], list) and item]
    if lists:
        chosen = chance.choice(lists)
        chosen.append(copy.deepcopy(chosen[0]))


CHANGES: tuple[Change, ...] = (
    something_else,
    something_gone,
    something_unknown,
    something_twice,
    lambda vmi, chance: any_device(vmi, chance).update(claim={"name": "c", "request": "r"}),
    lambda vmi, chance: any_device(vmi, chance).update(deviceName=chance.choice(["v/x", "", None])),
    lambda vmi, chance: any_device(vmi, chance).update(claimName=chance.choice(["", None, "c", "lost"])),
    lambda vmi, chance: any_device(vmi, chance).update(requestName=chance.choice(["", None, "r", "s"])),
    lambda vmi, chance: any_device(vmi, chance).update(name=chance.choice(["", None])),
    lambda vmi,
    _: devices(vmi)["gpus"].extend({"name": n, "deviceName": "v/x", "virtualGPUOptions": SHOWN} for n in "xy"),
    lambda vmi,
    _: vmi["spec"]["networks"].append({"name": "n", "resourceClaim": {"claimName": "c", "requestName": "n"}}),
    lambda vmi, _: devices(vmi)["interfaces"].append({"name": "n", "sriov": {}}), lambda vmi,
    chance: vmi["spec"]["networks"].append({"name": chance.choice(["n", "default"]), "multus": {"networkName": "x"}}),
    lambda vmi, _: vmi["spec"]["domain"]["memory"].update(reservedOverhead={"memLock": "Required"}), lambda vmi,
    _: vmi["spec"]["domain"]["memory"].update(reservedOverhead={"memLock": "Maybe"}), lambda vmi,
    chance: vmi["metadata"]["labels"].update({chance.choice(["kubevirt.io/created-by", "a b"]): chance.choice(["x",
        "x y"])}), lambda vmi, chance: vmi["metadata"].update(name=chance.choice(["A", "a.b", "x" * 254])),
)  # fmt: skip


def random_object(chance: random.Random) -> Json:
    """A VMI, or a VM around it, with up to three changes. A change that no longer applies after others is left out."""
    vmi = copy.deepcopy(VMI)
    for _ in range(chance.randint(0, 3)):
        try:
            chance.choice(CHANGES)(vmi, chance)
        except (KeyError, IndexError, TypeError, AttributeError):
            continue
    if chance.random() < 0.6:
        return vmi
    template = {"metadata": {"labels": vmi["metadata"]["labels"]}, "spec": vmi["spec"]}
    return {
        **vmi,
        "kind": "VirtualMachine",
        "metadata": {"name": vmi["metadata"]["name"]},
        "spec": {"runStrategy": "Halted", "template": template},
    }


Answer = tuple[str, frozenset[tuple[str, str]]]
"""Who refuses ("" nobody), and the type and field of each cause. Types of JSON are named otherwise by an API server."""


def answered(plane: ControlPlane, namespace: str, obj: Json, validation: FieldValidation) -> tuple[Answer, str]:
    plural = "virtualmachines" if obj["kind"] == "VirtualMachine" else "virtualmachineinstances"
    path = f"/apis/kubevirt.io/v1/namespaces/{namespace}/{plural}?dryRun=All&fieldValidation={validation}"
    try:
        plane.request("POST", path, obj)
    except RequestError as error:
        if error.status == 400 and "strict decoding error" in error.message:
            return ("api-server", frozenset()), error.message
        by = "kubevirt" if "admission webhook" in error.message else "api-server"
        # "<nil>": an alternative of a quantity's type has the same fault once more, without a field.
        told = [
            (cause["reason"].replace("TypeInvalid", "Invalid"), cause["field"])
            for cause in error.causes
            if cause["field"] != "<nil>"
        ]
        causes = frozenset(told)
        return (by, causes), error.message
    return ("", frozenset()), ""


def said(verdict: Verdict) -> Answer:
    by = {cause.by for cause in verdict.causes}
    assert len(by) <= 1
    strict = any(cause.message.startswith("strict decoding error") for cause in verdict.causes)
    return "".join(by), frozenset() if strict else frozenset((cause.type, cause.field) for cause in verdict.causes)


@pytest.mark.parametrize("version", ["1.5", "1.7", "1.8.0", "1.8.3", "1.9", "main"])
async def test_admit_and_a_real_api_server_agree(control_plane: ControlPlane, namespace: str, version: str) -> None:
    parsed = KubeVirtVersion.parse(version)
    gates = Gates.for_version(parsed, dict.fromkeys(KNOWN_GATES, True) | {"Sidecar": False})
    chance = random.Random(f"admission {version}")

    async with kubevirt_installed(control_plane, gates):
        bad: Json = {
            **VMI,
            "metadata": {"name": "vm", "labels": {"kubevirt.io/created-by": "x"}},
            "spec": {"domain": {"devices": {}}},
        }
        ask = lambda: asyncio.to_thread(answered, control_plane, namespace, bad, "Warn")  # noqa: E731 - asked again and again
        await eventually(ask, lambda answer: answer[0][0] == "kubevirt")
        for _ in range(60):
            obj = random_object(chance)
            validation: FieldValidation = chance.choice(["Warn", "Warn", "Ignore", "Strict"])
            theirs, message = await asyncio.to_thread(answered, control_plane, namespace, obj, validation)
            verdict = admit(obj, gates, field_validation=validation)
            assert said(verdict) == theirs, (obj, validation, message, verdict.message)
            for cause in verdict.causes:
                if cause.message.startswith("strict decoding error"):
                    assert f'unknown field "{cause.field}"' in message
                elif theirs[0] == "kubevirt":
                    assert cause.message in message
