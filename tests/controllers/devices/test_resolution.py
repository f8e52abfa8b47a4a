"""Pod -> claim -> slice -> address: cases/device_status holds one list of cases per section of K-5, each a change of
base.yaml."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controllers.changed_objects import base_of, cases_in, changed
from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.attribute_keys import read_keys
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.meta import parse_time
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.controllers.devices.options import ResolutionOptions
from virt_dra.controllers.devices.outcomes import REASONS, DeviceResolution
from virt_dra.controllers.devices.resolution import resolve
from virt_dra.controllers.loops.device_status import own_report
from virt_dra.controllers.pods.current_pod import current_pod, launcher_pods_of

CASES = Path(__file__).parent / "cases" / "device_status"
BASE = base_of(CASES)


def _resolution(case: Json) -> tuple[VirtualMachineInstance, DeviceResolution]:
    objects = changed(BASE, case.get("set", {}))
    raw = case.get("options", {})
    options = ResolutionOptions(
        spread=raw.get("spread", False),
        keys=read_keys(raw.get("keys", []), "keys"),
        migration_target=raw.get("migrationTarget", False),
        now=parse_time(raw["now"]) if "now" in raw else None,
        grace=timedelta(seconds=raw.get("grace", 120)),
    )
    vmi = VirtualMachineInstance.from_wire(objects["vmi"])
    pod = Pod.from_wire(objects["pod"]) if "pod" in objects else None
    claims = [ResourceClaim.from_wire(claim) for claim in objects["claims"]]
    slices = [ResourceSlice.from_wire(s) for s in objects["slices"]]
    forwards, backwards = (
        resolve(vmi, pod, claims, slices, options),
        resolve(vmi, pod, claims[::-1], slices[::-1], options),
    )
    assert forwards == backwards, "the order of claims and slices must not matter"
    return vmi, forwards


def run(case: Json) -> Json:
    """The whole result: the status, and every device that has no address, or of which something is to be told."""
    vmi, resolution = _resolution(case)
    settled = own_report(vmi, resolution)
    status = settled.device_status()
    told: Json = {"deviceStatus": None if status is None else status.to_wire()}
    for name, unresolved in (("unresolved", settled.unresolved), ("lost", settled.lost)):
        if unresolved:
            told[name] = [
                {"device": str(u.subject), "reason": u.reason, "state": u.state, "message": u.message}
                for u in unresolved
            ]
    if settled.warnings:
        told["warnings"] = [
            {"device": str(w.subject), "reason": w.reason, "message": w.message} for w in settled.warnings
        ]
    return told


@pytest.mark.parametrize("case", cases_in(CASES))
def test_device_status(case: Json) -> None:
    assert run(case) == case["want"]


def test_the_current_pod_is_on_the_vmis_node_or_else_the_newest() -> None:
    vmi = VirtualMachineInstance.from_wire(
        {"metadata": {"namespace": "lab", "uid": "vmi-1"}, "status": {"nodeName": "node-a"}}
    )
    old, new, target, foreign = (
        _launcher(name, node, created, labels, uid)
        for name, node, created, labels, uid in (
            ("old", "node-a", "2026-11-21T08:00:00Z", {}, "vmi-1"),
            ("new", "node-b", "2026-11-21T09:00:00Z", {}, "vmi-1"),
            ("target", "node-b", "2026-11-21T09:30:00Z", {"kubevirt.io/migrationJobUID": "job-1"}, "vmi-1"),
            ("foreign", "node-a", "2026-11-21T09:45:00Z", {}, "vmi-2"),
        )
    )
    homeless = vmi.with_(status=vmi.status.with_(node_name=None))
    pods = (foreign, target, new, old)
    assert launcher_pods_of(vmi, pods) == (target, new, old)
    assert launcher_pods_of(vmi.with_(metadata=vmi.metadata.with_(uid="")), pods) == ()
    assert current_pod(vmi, pods) is old
    assert current_pod(homeless, pods) is new
    assert current_pod(vmi, pods, migration_target=True) is target
    assert current_pod(vmi, (target, foreign)) is None


def _launcher(name: str, node: str, created: str, labels: Json, owner: str) -> Pod:
    reference = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "uid": owner, "controller": True}
    metadata = {
        "name": name,
        "namespace": "lab",
        "creationTimestamp": created,
        "labels": labels,
        "ownerReferences": [reference],
    }
    return Pod.from_wire({"metadata": metadata, "spec": {"nodeName": node}})


def test_every_reason_has_a_case() -> None:
    told = {entry["reason"] for param in cases_in(CASES) for entry in param.values[0]["want"].get("unresolved", ())}
    assert told == set(REASONS)


NAMES = st.sampled_from(["", "a", "b", "a/b"])
FEW = st.lists


def _objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({}, optional=fields)


METADATA = _objects(
    name=NAMES,
    namespace=st.sampled_from(["", "ns"]),
    uid=NAMES,
    resourceVersion=st.sampled_from(["", "1", "x", "٣"]),
    labels=st.dictionaries(
        st.sampled_from(["kubevirt.io/created-by", "kubevirt.io/migrationJobUID"]), NAMES, max_size=1
    ),
    ownerReferences=FEW(_objects(kind=st.just("Pod"), name=NAMES, uid=NAMES, controller=st.booleans()), max_size=2),
)
ENTRIES = FEW(_objects(name=NAMES, resourceClaimName=NAMES, resourceClaimTemplateName=NAMES), max_size=2)
DEVICES = FEW(_objects(name=NAMES, claimName=NAMES, requestName=NAMES, deviceName=NAMES), max_size=3)
ADDRESSES = st.sampled_from(
    [{}, {"string": "0000:01:00.0"}, {"string": "7b2c9d1e-5f3a-4c68-9d0b-1a2b3c4d5e6f"}, {"string": " "}, {"int": 1}]
)
ENTRY = _objects(name=NAMES, deviceResourceClaimStatus=_objects(name=NAMES, attributes=_objects(pciAddress=NAMES)))
VMIS = _objects(
    metadata=METADATA,
    spec=_objects(resourceClaims=ENTRIES, domain=_objects(devices=_objects(gpus=DEVICES, hostDevices=DEVICES))),
    status=_objects(
        phase=st.just("Running"), nodeName=NAMES, deviceStatus=_objects(gpuStatuses=FEW(ENTRY, max_size=2))
    ),
)
PODS = _objects(
    metadata=METADATA,
    spec=_objects(nodeName=NAMES, resourceClaims=ENTRIES),
    status=_objects(
        phase=st.just("Running"), resourceClaimStatuses=FEW(_objects(name=NAMES, resourceClaimName=NAMES), max_size=2)
    ),
)
RESULTS = FEW(_objects(request=NAMES, driver=NAMES, pool=NAMES, device=NAMES, adminAccess=st.booleans()), max_size=3)
CLAIMS = _objects(
    metadata=METADATA,
    status=_objects(
        allocation=_objects(
            devices=_objects(results=RESULTS), allocationTimestamp=st.sampled_from(["", "2026-11-21T08:00:00Z"])
        ),
        reservedFor=FEW(_objects(resource=st.just("pods"), name=NAMES, uid=NAMES), max_size=2),
    ),
)
PUBLISHED = _objects(
    name=NAMES,
    nodeName=NAMES,
    attributes=st.dictionaries(st.sampled_from(["pciBusID", "mdevUUID", "a/pciBusID"]), ADDRESSES, max_size=2),
)
SLICES = _objects(
    metadata=METADATA,
    spec=_objects(
        driver=NAMES, nodeName=NAMES, devices=FEW(PUBLISHED, max_size=2),
        pool=_objects(name=NAMES, generation=st.integers(0, 1), resourceSliceCount=st.integers(0, 2)),
    ),
)  # fmt: skip


@given(
    VMIS,
    st.none() | PODS,
    FEW(CLAIMS, max_size=3),
    FEW(SLICES, max_size=3),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_any_well_typed_objects_have_an_answer_that_their_order_does_not_change(
    raw_vmi: Json, raw_pod: Json | None, raw_claims: list[Json], raw_slices: list[Json], spread: bool, random: Random
) -> None:
    vmi = VirtualMachineInstance.from_wire(raw_vmi)
    pod = None if raw_pod is None else Pod.from_wire(raw_pod)
    claims = [ResourceClaim.from_wire(raw) for raw in raw_claims]
    slices = [ResourceSlice.from_wire(raw) for raw in raw_slices]
    options = ResolutionOptions(spread=spread, now=parse_time("2026-11-21T09:00:00Z"))
    resolution = resolve(vmi, pod, claims, slices, options)
    entries = (*vmi.spec.domain.devices.gpus, *vmi.spec.domain.devices.host_devices)
    assert [o.subject.name for o in resolution.outcomes] == [entry.name for entry in entries if entry.is_dra]
    assert {o.reason for o in resolution.unresolved} <= set(REASONS)
    assert own_report(vmi, resolution).unresolved == tuple(
        o for o in resolution.unresolved if o not in own_report(vmi, resolution).lost
    )
    random.shuffle(claims)
    random.shuffle(slices)
    assert resolve(vmi, pod, claims, slices, options) == resolution
