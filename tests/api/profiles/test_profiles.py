"""Lines of profiles: how they are read, what profiles may say, and what they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sampling import sample
from virt_dra.api.defaults import defaulted
from virt_dra.api.kubevirt_v1 import VirtualMachineInstanceSpec
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION, LINE_MAX, AskedProfile, RefusedLineError, asked_profiles
from virt_dra.api.profiles.device_profile_v1alpha1 import DEVICE_TYPES, DeviceProfile
from virt_dra.api.profiles.expansion import ExpandedVm, VmAsking, expand_profiles
from virt_dra.api.reading.namespaces import in_namespace
from virt_dra.api.validation import validate_create
from virt_dra.api.wire import Json
from virt_dra.cel.validation import COMPILED

CASES = Path(__file__).parent / "cases"


def cases(name: str) -> list[Json]:
    read: list[Json] = yaml.safe_load((CASES / f"{name}.yaml").read_text())
    return read


def profile(name: str, spec: Json) -> DeviceProfile:
    return DeviceProfile.from_wire({"metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize("case", cases("lines"), ids=lambda case: repr(case["line"]))
def test_a_line_is_read(case: Json) -> None:
    annotations = {DEVICES_ANNOTATION: case["line"]}
    if "items" in case:
        assert asked_profiles(annotations) == tuple(AskedProfile(*item) for item in case["items"])
        return
    with pytest.raises(RefusedLineError) as refused:
        asked_profiles(annotations)
    field = f"metadata.annotations[{DEVICES_ANNOTATION}]"
    assert list(map(str, refused.value.errors)) == [f"{field}: Invalid value: {error}" for error in case["errors"]]


@pytest.mark.parametrize(
    ("line", "error"),
    [("a" * (LINE_MAX + 1), "Too long: may not be more than 4096 bytes"),
     (",".join("a" * 17), "Too many: 17: must have at most 16 items")],
)  # fmt: skip
def test_long_lines_are_refused_unread(line: str, error: str) -> None:
    with pytest.raises(RefusedLineError) as refused:
        asked_profiles({DEVICES_ANNOTATION: line}, "here")
    assert list(map(str, refused.value.errors)) == [f"here[{DEVICES_ANNOTATION}]: {error}"]


def test_a_vm_without_a_line_asks_for_nothing() -> None:
    assert asked_profiles({"virt-dra.io/other": "a"}) == ()


@pytest.mark.parametrize("case", cases("profiles"), ids=lambda case: case["title"])
def test_a_profile_is_judged_where_it_is_written(case: Json) -> None:
    assert list(map(str, validate_create(profile("p", case["spec"]), COMPILED))) == case["errors"]


def expanded(case: Json) -> ExpandedVm:
    profiles = {name: profile(name, spec) for name, spec in case["profiles"].items()}
    if not case.get("unchecked"):
        assert not any(validate_create(profile, COMPILED) for profile in profiles.values())
    vm = VmAsking(
        case.get("vm", "vm"), "team", case.get("namespace_labels"), pod_binding=case.get("pod_binding", "bridge")
    )
    asked = asked_profiles({DEVICES_ANNOTATION: case["line"]})
    return expand_profiles(VirtualMachineInstanceSpec.from_wire(case.get("spec", {})), asked, profiles, vm)


@pytest.mark.parametrize("case", cases("expansions"), ids=lambda case: case["title"])
def test_a_line_stands_for_entries_and_claims(case: Json) -> None:
    if "errors" in case:
        with pytest.raises(RefusedLineError) as refused:
            expanded(case)
        assert list(map(str, refused.value.errors)) == case["errors"]
        return
    result = expanded(case)
    assert result.spec.to_wire() == case["result"]
    claims = {template.name: template.to_wire()["spec"]["spec"]["devices"] for template in result.templates}
    assert claims == case["claims"]
    assert expanded({**case, "spec": result.spec.to_wire()}) == result, "a second time nothing changes"


NAMES = st.sampled_from(("gpu", "nic", "disk", "a"))
DEVICES = st.fixed_dictionaries(
    {"name": NAMES, "deviceClassName": st.sampled_from(("x", "y")), "type": st.sampled_from(DEVICE_TYPES)},
    optional={"count": st.integers(1, 3)},
)
PROFILES = st.dictionaries(
    st.sampled_from(("p", "q", "r")),
    st.fixed_dictionaries({"devices": st.lists(DEVICES, min_size=1, max_size=3, unique_by=lambda d: d["name"])}),
    min_size=1,
)
ITEMS = st.tuples(st.sampled_from(("", "one=", "two=")), st.sampled_from(("p", "q", "r")), st.integers(1, 3))


@given(profiles=PROFILES, items=st.lists(ITEMS, min_size=1, max_size=3))
@settings(max_examples=sample(60), deadline=None)
def test_each_entry_has_a_request_of_its_own_and_each_template_is_valid(
    profiles: Mapping[str, Any], items: list[tuple[str, str, int]]
) -> None:
    line = ", ".join(f"{name}{profile} x {copies}" for name, profile, copies in items)
    try:
        result = expanded({"profiles": profiles, "line": line})
    except RefusedLineError:
        return
    wanted = sum(
        copies * sum(device.get("count", 1) for device in profiles[name]["devices"]) for _, name, copies in items
    )
    devices = result.spec.domain.devices
    entries = [(entry.claim_name, entry.request_name) for entry in (*devices.gpus, *devices.host_devices)]
    networks = [network.resource_claim for network in result.spec.networks]
    entries += [(claim.claim_name, claim.request_name) for claim in networks if claim is not None]
    assert [network.name for network in result.spec.networks] == [i.name for i in devices.interfaces]
    template_of = {claim.resource_claim_template_name: claim.name for claim in result.spec.resource_claims}
    requests = [
        (template_of[template.name], request.name)
        for template in result.templates
        for request in template.spec.spec.devices.requests
    ]
    assert len(requests) == wanted
    assert sorted(map(str, entries)) == sorted(map(str, requests))
    created = [in_namespace(defaulted(template), "team") for template in result.templates]
    assert [error for template in created for error in validate_create(template, COMPILED)] == []
