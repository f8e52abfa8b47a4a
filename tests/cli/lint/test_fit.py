"""Whether a VM's claims fit on any node if nobody used a device: lint and run ask the allocator, and only where nothing
else is wrong."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.cli.lint.test_objects import CLASS, SLICE, TEMPLATE, VMI, _changed, _lint
from tests.cli.run.test_lint import _run

ROOT = "resource.kubernetes.io/pcieRoot"
REQUESTS = [{"name": name, "exactly": {"deviceClassName": "gpu.example.com"}} for name in ("gpu", "second")]
GPUS = [{"name": f"g-{name}", "claimName": "gpu", "requestName": name} for name in ("gpu", "second")]
TWO = _changed(VMI, ("spec.domain.devices.gpus", GPUS))


def _template(*constraints: Any, requests: Any = REQUESTS) -> Any:
    return _changed(TEMPLATE, ("spec.spec.devices", {"requests": requests, "constraints": list(constraints)}))


def _device(name: str, root: str, **more: Any) -> dict[str, Any]:
    bus = f"0000:0{name[-1]}:00.0"
    return {
        "name": name,
        "attributes": {ROOT: {"string": root}, "resource.kubernetes.io/pciBusID": {"string": bus}},
        **more,
    }


def _slice(*devices: Any, node: str = "node-1") -> Any:
    return _changed(
        SLICE,
        ("metadata.name", f"slice-{node}"),
        ("spec.nodeName", node),
        ("spec.pool", {"name": node, "generation": 1, "resourceSliceCount": 1}),
        ("spec.devices", list(devices)),
    )


SAME = {"matchAttribute": ROOT}
APART = (_device("gpu-1", "pci0000:00"), _device("gpu-2", "pci0000:80"))
TOGETHER = (_device("gpu-1", "pci0000:00"), _device("gpu-2", "pci0000:00"))
CONSUMES = {"consumesCounters": [{"counterSet": "card", "counters": {"slots": {"value": "2"}}}]}
PARTS = (_device("gpu-1", "pci0000:00", **CONSUMES), _device("gpu-2", "pci0000:00", **CONSUMES))
COUNTERS = [{"name": "card", "counters": {"slots": {"value": "3"}}}]


def _node(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("objects", "part"),
    [
        ((_template(SAME), _slice(*APART)), f"node-1, request second: 1 device: attribute {ROOT} differs"),
        ((_template(SAME), _slice(*TOGETHER)), None),
        ((_template({"distinctAttribute": ROOT}), _slice(*TOGETHER)), "node-1, request second: "),
        ((_template(), _slice(TOGETHER[0]), _slice(TOGETHER[1], node="node-2")), "2 nodes, request second: "),
        ((_template(), _slice(*TOGETHER), _node("node-2")), "node-2, request gpu: no device on the node"),
        ((_template(), _slice(*TOGETHER), _node("node-1", unschedulable=True)), "node-1: cordoned (unschedulable)"),
        ((_template(), _slice(*TOGETHER), _node("node-1")), None),
        ((_template(SAME), _slice(*APART), _slice(*TOGETHER, node="node-2")), None),
    ],
)  # fmt: skip
def test_lint_and_run_ask_the_allocator(objects: tuple[Any, ...], part: str | None) -> None:
    code, findings = _lint(TWO, CLASS, *objects)
    ran = json.loads(_run(TWO, CLASS, *objects).stdout)
    assert ran["ready"] == (part is None)
    if part is None:
        assert (code, findings["VirtualMachineInstance vm"]) == (0, [])
        return
    ((id, field, message),) = findings["VirtualMachineInstance vm"]
    assert (code, id, field) == (1, "claims-do-not-fit", "spec.resourceClaims")
    assert part in message
    assert [finding["id"] for finding in ran["vms"][0]["findings"]] == ["claims-do-not-fit"]


def test_shared_counters_are_counted_together() -> None:
    counters = _changed(
        _slice(), ("metadata.name", "counters"), ("spec.devices", None), ("spec.sharedCounters", COUNTERS)
    )
    slices = [_changed(slice_, ("spec.pool.resourceSliceCount", 2)) for slice_ in (_slice(*PARTS), counters)]
    code, findings = _lint(TWO, CLASS, _template(), *slices)
    assert (code, [finding[0] for finding in findings["VirtualMachineInstance vm"]]) == (1, ["claims-do-not-fit"])
    more = _changed(slices[1], ("spec.sharedCounters.0.counters.slots.value", "4"))
    assert _lint(TWO, CLASS, _template(), slices[0], more)[0] == 0


def test_it_is_silent_where_another_finding_says_what_is_wrong() -> None:
    selector = [{"cel": {"expression": "false"}}]
    never = {"name": "second", "exactly": {"deviceClassName": "gpu.example.com", "selectors": selector}}
    template = _template(requests=[REQUESTS[0], never])
    for options in ((), ("--ignore", "no-matching-device")):
        _, findings = _lint(TWO, CLASS, _slice(*TOGETHER), template, options=options)
        assert [finding[0] for finding in findings["VirtualMachineInstance vm"]] == ["no-matching-device"][
            : 1 - bool(options)
        ]


def test_what_others_hold_is_no_fault_of_the_vm() -> None:
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-1"}
    held = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "other"},
        "spec": {"devices": {"requests": REQUESTS[:1]}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }
    assert _lint(TWO, CLASS, _slice(*TOGETHER), _template(), held)[0] == 0
    own = _changed(
        TWO,
        (
            "spec.resourceClaims",
            [{"name": "held", "resourceClaimName": "other"}, {"name": "gpu", "resourceClaimTemplateName": "one"}],
        ),
    )
    code, findings = _lint(own, CLASS, _slice(*TOGETHER), _template(), held)
    assert (code, [finding[0] for finding in findings["VirtualMachineInstance vm"]]) == (1, ["claims-do-not-fit"]), (
        "its own claim holds a device"
    )


@pytest.mark.parametrize("status", [{}, {"status": {}}])
@pytest.mark.parametrize("uid", [{}, {"uid": "u", "resourceVersion": "7"}])
def test_a_claims_manifest_leaves_the_allocation_of_the_claim_alone_in_lint_and_run(
    uid: dict[str, str], status: dict[str, Any]
) -> None:
    manifest = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "one"},
        "spec": {"devices": {"requests": REQUESTS[:1]}},
        **status,
    }
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-3"}
    live = {
        **manifest,
        "metadata": {"name": "one", **uid},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }
    without_address = {"name": "gpu-3", "attributes": {ROOT: {"string": "pci0000:00"}}}
    vm = _changed(VMI, ("spec.resourceClaims", [{"name": "gpu", "resourceClaimName": "one"}]))
    for objects in ((live, manifest), (live,)):
        given = (vm, CLASS, _slice(TOGETHER[0], without_address), *objects)
        code, findings = _lint(*given)
        assert (code, len(findings["VirtualMachineInstance vm"])) == (1, 1)
        ((check, _, message),) = findings["VirtualMachineInstance vm"]
        assert (check, "every device" in message) == ("no-address", True)
        (outcome,) = json.loads(_run(*given).stdout)["vms"]
        assert (outcome["ready"], outcome["failure"]["reason"]) == (False, "NoAddress")


def test_without_classes_and_slices_nothing_is_said() -> None:
    assert _lint(TWO, _template(SAME))[0] == 0


@pytest.mark.parametrize(
    ("change", "field", "part"),
    [
        (("spec.domain.memory", {"guest": "0"}), "spec.domain.memory.guest", "0 is no amount of memory for a guest"),
        (("spec.domain.cpu", {"cores": -1}), "spec.domain.cpu", "are no topology"),
        (("spec.domain.machine", {"type": "nonsense machine"}), "spec.domain.machine.type", "is no machine type"),
        (
            ("spec.domain.devices.gpus", [{**GPUS[0], "name": "a\x07b"}, GPUS[1]]),
            "spec.domain.devices.gpus[0].name",
            "which XML can't contain; remove it",
        ),
    ],
)
def test_a_domain_that_libvirt_can_not_have(change: tuple[str, Any], field: str, part: str) -> None:
    for objects in ((CLASS, _template(), _slice(*TOGETHER)), (_template(),)):
        code, findings = _lint(_changed(TWO, change), *objects)
        ((id, where, message),) = findings["VirtualMachineInstance vm"]
        assert (code, id, where) == (1, "invalid-domain", field)
        assert part in message


CAPACITY = {"value": "80Gi", "requestPolicy": {"default": "10Gi", "validRange": {"min": "1Gi"}}}


def test_one_device_for_two_requests_is_one_too_few_for_libvirt() -> None:
    """K-5.13: what may be allocated several times comes to the VM once."""
    shared = _device("gpu-1", "pci0000:00", allowMultipleAllocations=True, capacity={"memory": CAPACITY})
    objects = (TWO, CLASS, _template(), _slice(shared))
    code, findings = _lint(*objects)
    ran = json.loads(_run(*objects).stdout)
    assert (code, ran["vms"][0]["ready"]) == (1, False)
    assert [finding[0] for finding in findings["VirtualMachineInstance vm"]] == ["invalid-domain"]
    assert ran["vms"][0]["failure"] is not None


@pytest.mark.parametrize(("labels", "code"), [({}, 1), ({"resource.kubernetes.io/admin-access": "true"}, 0)])
def test_admin_access_that_no_device_uses_needs_a_namespace_that_permits_it(labels: dict[str, str], code: int) -> None:
    """The API server refuses the claim itself, whether or not a device uses that request (A-22.10)."""
    template = _template(
        requests=[
            REQUESTS[0],
            {"name": "second", "exactly": {"deviceClassName": "gpu.example.com", "adminAccess": True}},
        ]
    )
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": labels}}
    vmi = _changed(TWO, ("spec.domain.devices.gpus", GPUS[:1]))
    for objects in ((namespace,), *(((),) if code else ())):
        objects = (vmi, CLASS, template, _slice(*TOGETHER), *objects)
        assert (_lint(*objects)[0], _run(*objects).exit_code) == (code, code)


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        ({"name": "gpu"}, "spec.resourceClaims[0]"),
        ({"name": "gpu", "resourceClaimTemplateName": "one", "resourceClaimName": "two"}, "spec.resourceClaims[0]"),
        ({"name": "gpu", "resourceClaimTemplateName": ""}, "spec.resourceClaims[0].resourceClaimTemplateName"),
    ],
)
@pytest.mark.parametrize("release", ["1.7.4", "1.8.4"])
def test_a_pod_that_the_api_server_refuses(entry: Any, part: str, release: str) -> None:
    """K-2.28: before 1.9 KubeVirt does not look at the sources of claims."""
    options = ("--kubevirt-version", release, "--kubevirt-gates", "GPUsWithDRA=true", "-o", "json")
    result = _run(_changed(VMI, ("spec.resourceClaims", [entry])), command="lint", options=options)
    (entries,) = [obj["findings"] for obj in json.loads(result.stdout)["objects"]]
    denials = [entry for entry in entries if entry["severity"] == "denial"]
    assert (result.exit_code, [denial["id"] for denial in denials]) == (1, ["pod-refused"])
    assert f"the API server refuses it: {part}: " in denials[0]["message"]


def test_a_name_that_is_generated_is_a_name() -> None:
    vmi = _changed(TWO, ("metadata", {"generateName": "vm-"}))
    objects = (vmi, CLASS, _template(), _slice(*TOGETHER))
    assert (_lint(*objects)[0], _run(*objects).exit_code) == (0, 0)


def test_many_vms_alike_cost_little() -> None:
    nodes = [_slice(*APART, node=f"node-{n}") for n in range(100)]
    vms = [_changed(TWO, ("metadata.name", f"vm-{n}")) for n in range(100)]
    began = time.process_time()
    code, findings = _lint(*vms, CLASS, _template(SAME), *nodes)
    assert (
        code,
        {finding[0] for vm in vms for finding in findings[f"VirtualMachineInstance {vm['metadata']['name']}"]},
    ) == (
        1,
        {"claims-do-not-fit"},
    )
    assert time.process_time() - began < 10, "seconds of the processor"


def test_lint_and_run_agree_on_room() -> None:
    """64 processors where the only node has 2."""
    node = _changed(_node("node-1"), ("status", {"allocatable": {"cpu": "2", "memory": "16Gi", "pods": "110"}}))
    domain = {"resources": {"requests": {"cpu": "64", "memory": "1Gi"}}, "devices": {}}
    vm = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm"},
        "spec": {"domain": domain},
    }
    code, findings = _lint(vm, node)
    ((id, field, message),) = findings["VirtualMachineInstance vm"]
    assert (code, id, field) == (1, "no-node-fits", "spec.domain")
    assert "node-1: too little cpu" in message
    ran = json.loads(_run(vm, node).stdout)
    assert ran["ready"] is False
    failure = ran["vms"][0]["failure"]
    assert failure["advice"] == "ask for less, stop another VM there, or add a node with more room"
    smaller = _changed(vm, ("spec.domain.resources.requests.cpu", "1"))
    assert _lint(smaller, node) == (0, {"VirtualMachineInstance vm": []})
    assert json.loads(_run(smaller, node).stdout)["ready"] is True
