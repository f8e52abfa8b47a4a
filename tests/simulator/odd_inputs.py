"""Inputs of a VM and what it names, sound ones with some changes: misspelt keys, wrong types, names, counts,
constraints, versions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Raw = dict[str, Any]
Input = list[Any]
DRIVER = "gpu.example.com"
ROOT = "resource.kubernetes.io/pcieRoot"
JUNK: tuple[Any, ...] = (
    *(None, 0, -1, 2, True, 1.5, 10**30, [], [None], [{}], {}, {"a": 1}),
    *("", "x", "a/b", "A B", "\x00", "é", "n" * 70, "..", "0000:01:00.0", "{{ .Values.x }}", "All", "false"),
)
WORDS = ("gpu", "gup", "second", "", "GPU", "a/b", "x" * 64, "gpu/a")


def sound() -> Input:
    """Two nodes with GPUs, a template with two requests, a VMI that uses both, a VM that uses one."""

    def device(n: int, root: str) -> Raw:
        return {
            "name": f"gpu-{n}",
            "attributes": {
                "model": {"string": "A100" if n else "T4"},
                ROOT: {"string": root},
                "resource.kubernetes.io/pciBusID": {"string": f"0000:0{n + 1}:00.0"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }

    def resource_slice(node: str, devices: list[Raw]) -> Raw:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-gpus"},
            "spec": spec,
        }

    requests = [{"name": name, "exactly": {"deviceClassName": DRIVER}} for name in ("gpu", "second")]
    devices = {
        "gpus": [{"name": f"my-{name}", "claimName": "claim", "requestName": name} for name in ("gpu", "second")]
    }
    spec = {"resourceClaims": [{"name": "claim", "resourceClaimTemplateName": "two"}], "domain": {"devices": devices}}
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": DRIVER},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
        },
        resource_slice("node-1", [device(0, "pci0000:00"), device(1, "pci0000:00"), device(2, "pci0000:80")]),
        resource_slice("node-2", [device(3, "pci0000:00")]),
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "two"},
            "spec": {"spec": {"devices": {"requests": requests}}},
        },
        {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "vm"}, "spec": spec},
    ]


CLASS, FIRST, SECOND, TEMPLATE, VM = range(5)


# --- changes ---


def _claim(objects: Input) -> Raw:
    claim: Raw = objects[TEMPLATE]["spec"]["spec"]["devices"]
    return claim


def _spec(objects: Input) -> Raw:
    spec = objects[VM]["spec"]
    spec_of_vmi: Raw = spec["template"]["spec"] if "template" in spec else spec
    return spec_of_vmi


def _word(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(WORDS))


def _request(draw: st.DrawFn, objects: Input) -> Raw:
    request: Raw = draw(st.sampled_from(_claim(objects)["requests"]))
    return request


def request_name(draw: st.DrawFn, objects: Input) -> None:
    draw(st.sampled_from([*_claim(objects)["requests"], *_spec(objects)["domain"]["devices"]["gpus"]])).update(
        {draw(st.sampled_from(["name", "requestName", "claimName"])): _word(draw)}
    )


def misspelt(draw: st.DrawFn, objects: Input) -> None:
    holder = draw(st.sampled_from([holder for holder in _holders(objects) if holder]))
    key = draw(st.sampled_from(sorted(holder)))
    holder[draw(st.sampled_from([key[1:], key + "s", key.upper(), "x"])) or "y"] = holder.pop(key)


def spoilt(draw: st.DrawFn, objects: Input) -> None:
    holder = draw(st.sampled_from([holder for holder in _holders(objects) if holder]))
    holder[draw(st.sampled_from(sorted(holder)))] = copy.deepcopy(draw(st.sampled_from(JUNK)))


def removed(draw: st.DrawFn, objects: Input) -> None:
    holder = draw(st.sampled_from([holder for holder in _holders(objects) if holder]))
    del holder[draw(st.sampled_from(sorted(holder)))]


def _holders(value: Any) -> list[Raw]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [*([value] if isinstance(value, dict) else []), *(holder for item in inner for holder in _holders(item))]


def asked(draw: st.DrawFn, objects: Input) -> None:
    choices: tuple[Raw, ...] = (
        {"count": draw(st.integers(-1, 5))},
        {"allocationMode": draw(st.sampled_from(["All", "ExactCount", "Some"]))},
        {"adminAccess": True},
        {"deviceClassName": draw(st.sampled_from(["", "gpu.exampel.com", "A"]))},
        {"capacity": {"requests": {"memory": draw(st.sampled_from(["1Gi", "800Gi", "x"]))}}},
        {"selectors": [{"cel": {"expression": draw(st.sampled_from(SELECTORS))}}]},
        {"tolerations": [{"operator": draw(st.sampled_from(["Exists", "Never"]))}]},
    )
    _request(draw, objects)["exactly"].update(draw(st.sampled_from(choices)))


SELECTORS = (
    "true",
    "false",
    "device.",
    'device.attributes["gpu.example.com"].model == "A100"',
    'device.attributes["gpu.example.com"].model == "H100"',
    'device.attributes["gpu.example.com"].missing == 1',
    'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:80"',
)


def alternatives(draw: st.DrawFn, objects: Input) -> None:
    request = _request(draw, objects)
    exactly = request.pop("exactly", {"deviceClassName": DRIVER})
    names = draw(st.sampled_from([["a"], ["a", "b"], ["a", "a"], [""]]))
    request["firstAvailable"] = [{**exactly, "name": name} for name in names]


def constraint(draw: st.DrawFn, objects: Input) -> None:
    kind = draw(st.sampled_from(["matchAttribute", "distinctAttribute"]))
    attribute = draw(st.sampled_from([ROOT, f"{DRIVER}/model", f"{DRIVER}/missing", "bare"]))
    requests = draw(
        st.sampled_from([{}, {"requests": ["gpu", "second"]}, {"requests": ["gpu"]}, {"requests": ["other"]}])
    )
    _claim(objects)["constraints"] = [{kind: attribute, **requests}]


def configuration(draw: st.DrawFn, objects: Input) -> None:
    driver = draw(st.sampled_from([DRIVER, "other.example.com", "A"]))
    parameters = draw(st.sampled_from([{}, {"kind": "X"}, None, 1]))
    _claim(objects)["config"] = [{"opaque": {"driver": driver, "parameters": parameters}}]


def older(draw: st.DrawFn, objects: Input) -> None:
    """An older version, written as it is or as the new one is."""
    at = draw(st.sampled_from([CLASS, FIRST, TEMPLATE]))
    objects[at]["apiVersion"] = draw(
        st.sampled_from(["resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"])
    )
    if draw(st.booleans()):
        for request in _claim(objects)["requests"] if at == TEMPLATE else ():
            request.update(request.pop("exactly", {}))
        for device in objects[at]["spec"].get("devices", ()) if at == FIRST else ():
            device["basic"] = {key: device.pop(key) for key in ("attributes", "capacity") if key in device}


def flat(draw: st.DrawFn, objects: Input) -> None:
    request = _request(draw, objects)
    request.update(request.pop("exactly", {}))


def vm(draw: st.DrawFn, objects: Input) -> None:
    vmi = objects[VM]
    if vmi["kind"] == "VirtualMachine":
        return
    objects[VM] = {
        **vmi,
        "kind": "VirtualMachine",
        "spec": {"runStrategy": "Always", "template": {"metadata": {}, "spec": vmi["spec"]}},
    }
    if draw(st.booleans()):
        spec = objects[VM]["spec"]
        spec["resourceClaims"] = spec["template"]["spec"].pop("resourceClaims")


def direct(draw: st.DrawFn, objects: Input) -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": draw(st.sampled_from(["mine", "yours"]))},
        "spec": copy.deepcopy(objects[TEMPLATE]["spec"]["spec"]),
    }
    objects.append(claim)
    _spec(objects)["resourceClaims"] = [{"name": "claim", "resourceClaimName": "mine"}]


def sources(draw: st.DrawFn, objects: Input) -> None:
    given: tuple[Any, ...] = (
        [],
        [{"name": "claim"}],
        [{"name": "claim", "resourceClaimTemplateName": "two", "resourceClaimName": "two"}],
        [{"name": "claim", "source": {"resourceClaimTemplateName": "two"}}],
        [{"name": "claim", "resourceClaimTemplateName": ""}],
        [{"name": "claim", "resourceClaimTemplateName": "tow"}],
        [{"name": "", "resourceClaimTemplateName": "two"}],
        [{"name": "Claim", "resourceClaimTemplateName": "two"}],
        [{"name": "claim", "resourceClaimTemplateName": "two"}] * 2,
        [{"name": "claim", "resourceClaimTemplateName": "two"}, {"name": "more", "resourceClaimTemplateName": "two"}],
    )
    _spec(objects)["resourceClaims"] = copy.deepcopy(draw(st.sampled_from(given)))


def devices(draw: st.DrawFn, objects: Input) -> None:
    holder, entry = _spec(objects)["domain"]["devices"], {"name": "h", "claimName": "claim", "requestName": "second"}
    choices: tuple[Raw, ...] = (
        {"hostDevices": [entry], "gpus": holder["gpus"][:1]},
        {"hostDevices": [{**entry, "requestName": "gpu"}]},
        {"gpus": holder["gpus"] * 2},
        {"gpus": [*holder["gpus"], {"name": "plugin", "deviceName": "nvidia.com/A100"}]},
        {"gpus": [{**holder["gpus"][0], "name": draw(st.sampled_from(["", "a\x07b", "x" * 100, "ü", "a b"]))}]},
        {"gpus": [{"name": "d", "claim": {"name": "claim", "request": "gpu"}}]},
        {"gpus": []},
        {"gpu": holder["gpus"]},
        {"gpus": [{**holder["gpus"][0], "tag": "t", "virtualGPUOptions": {"display": {"enabled": True}}}]},
    )
    holder.update(draw(st.sampled_from(choices)))


def names(draw: st.DrawFn, objects: Input) -> None:
    raw = draw(st.sampled_from(objects))
    raw["metadata"] = draw(
        st.sampled_from([
            {"name": "A_b"}, {"name": ""}, {}, {"generateName": "two-"}, {"generateName": "A_"}, {"name": "x" * 254},
            {"name": "a" * 70}, {"name": "two", "labels": {"a": "b c"}}, {"name": "vm", "namespace": "other"},
            {"name": "vm", "annotations": {"a b": "c"}},
        ])
    )  # fmt: skip


def repeated(draw: st.DrawFn, objects: Input) -> None:
    objects.append(copy.deepcopy(draw(st.sampled_from(objects))))


def missing(draw: st.DrawFn, objects: Input) -> None:
    objects[draw(st.sampled_from([CLASS, FIRST, SECOND, TEMPLATE]))] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "instead"},
    }


def published(draw: st.DrawFn, objects: Input) -> None:
    """Other addresses, taints, pools."""
    spec = objects[FIRST]["spec"]
    change: tuple[Callable[[], Any], ...] = (
        lambda: [device["attributes"].pop("resource.kubernetes.io/pciBusID", None) for device in spec["devices"]],
        lambda: spec["devices"][0]["attributes"].update({"resource.kubernetes.io/pciBusID": {"string": "nonsense"}}),
        lambda: [device.update({"taints": [{"key": "broken", "effect": "NoSchedule"}]}) for device in spec["devices"]],
        lambda: spec["pool"].update({"resourceSliceCount": 2}),
        lambda: spec["pool"].update({"generation": 0}),
        lambda: spec.pop("nodeName"),
        lambda: (spec.pop("nodeName"), spec.update({"allNodes": True})),
        lambda: spec["devices"].append(copy.deepcopy(spec["devices"][0])),
    )
    draw(st.sampled_from(change))()


def nodes(draw: st.DrawFn, objects: Input) -> None:
    for name in draw(st.sampled_from([["node-1"], ["node-2"], ["node-1", "node-2"], ["other"]])):
        spec = draw(st.sampled_from([{}, {"unschedulable": True}, {"taints": [{"key": "a", "effect": "NoSchedule"}]}]))
        labels = draw(st.sampled_from([{}, {"disk": "fast"}]))
        objects.append({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec})
    _spec(objects)["nodeSelector"] = draw(st.sampled_from([{}, {"disk": "fast"}, {"kubernetes.io/hostname": "node-1"}]))


CHANGES = (
    *(
        request_name,
        misspelt,
        spoilt,
        removed,
        asked,
        alternatives,
        constraint,
        configuration,
        older,
        flat,
        vm,
        direct,
        sources,
        devices,
    ),
    *(names, repeated, missing, published, nodes),
)


@st.composite
def inputs(draw: st.DrawFn) -> Input:
    """One to three changes; what an earlier one made impossible is left out."""
    objects = sound()
    for change in draw(st.lists(st.sampled_from(CHANGES), min_size=1, max_size=3)):
        try:
            change(draw, objects)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError):
            continue
    return objects
