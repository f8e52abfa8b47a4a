"""Any names and any combination of devices: a domain that libvirt's schema accepts, or a typed refusal."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from devtools.libvirt import witness as libvirt_witness
from launcher import AddressSources, Conversion, LauncherError, convert
from tests.sampling import sample
from virt_dra.api.wire import Json

anything = st.text(st.characters(codec=None), max_size=8)  # no codec: surrogates too
labels = st.from_regex(r"\A[a-z]([a-z0-9-]{0,8}[a-z0-9])?\Z")
pci_addresses = st.builds(
    "{:04x}:{:02x}:{:02x}.{}".format, st.integers(0, 0xFFFF), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7)
)
attributes = st.fixed_dictionaries({"mDevUUID": st.uuids().map(str)}) | st.fixed_dictionaries(
    {"pciAddress": pci_addresses}
)
displays = st.none() | st.fixed_dictionaries(
    {}, optional={"display": st.fixed_dictionaries({}, optional={"enabled": st.booleans(), "ramFB": st.just({})})}
)


@st.composite
def vmis(draw: st.DrawFn) -> Json:
    """VMIs whose claimed devices all have an address in the status."""
    names = draw(st.lists(labels, min_size=1, max_size=6, unique=True))
    kinds = draw(st.lists(st.sampled_from(["gpus", "hostDevices"]), min_size=len(names), max_size=len(names)))
    devices: dict[str, list[Json]] = {"gpus": [], "hostDevices": []}
    statuses: dict[str, list[Json]] = {"gpus": [], "hostDevices": []}
    for index, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        options = draw(displays) if kind == "gpus" else None
        extra = {} if options is None else {"virtualGPUOptions": options}
        devices[kind].append({"name": name, "claimName": "c", "requestName": f"r{index}", **extra})
        statuses[kind].append({"name": name, "deviceResourceClaimStatus": {"attributes": draw(attributes)}})
    return {
        "metadata": {"name": draw(labels), "namespace": draw(labels)},
        "spec": {
            "architecture": draw(st.sampled_from(["amd64", "arm64", "s390x"])),
            "resourceClaims": [{"name": "c", "resourceClaimName": "o"}],
            "domain": {
                "cpu": draw(
                    st.fixed_dictionaries({}, optional={"cores": st.integers(0, 8), "sockets": st.integers(0, 4)})
                ),
                "memory": {"guest": draw(st.sampled_from(["64Mi", "1G", "1.5Gi"]))},
                "devices": devices,
            },
        },
        "status": {"deviceStatus": {"gpuStatuses": statuses["gpus"], "hostDeviceStatuses": statuses["hostDevices"]}},
    }


def outcome(vmi: Json, env: Mapping[str, str] = {}) -> Conversion | LauncherError:
    try:
        return convert(vmi, AddressSources(env))
    except LauncherError as refusal:
        return refusal


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
@settings(max_examples=sample(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(vmis())
def test_every_combination_of_devices_satisfies_libvirts_schema(vmi: Json) -> None:
    conversion = outcome(vmi)
    if isinstance(conversion, LauncherError):
        assert conversion.reason == "DuplicateAddress"
        return
    libvirt_witness.validate(conversion.domain_xml)
    assert len(conversion.hostdevs) == len(
        vmi["spec"]["domain"]["devices"]["gpus"] + vmi["spec"]["domain"]["devices"]["hostDevices"]
    )
    assert len({device.element.alias for device in conversion.hostdevs}) == len(conversion.hostdevs)


@settings(max_examples=sample(100), deadline=None)
@given(anything, anything)
def test_any_names_give_well_formed_xml_that_carries_them_or_a_typed_refusal(vmi: str, gpu: str) -> None:
    raw = {
        "metadata": {"name": vmi},
        "spec": {"domain": {"devices": {"gpus": [{"name": gpu, "deviceName": "v.com/x"}]}}},
    }
    conversion = outcome(raw, {"PCI_RESOURCE_V_COM_X": "0000:01:00.0"})
    if isinstance(conversion, LauncherError):
        assert conversion.reason in ("UnwritableText", "InvalidDomain")
        return
    alias = etree.fromstring(conversion.hostdevs[0].xml).find("alias")
    assert alias is not None
    assert alias.get("name") == f"ua-gpu-{gpu}"
    assert etree.fromstring(conversion.domain_xml).findtext("name") == f"default_{vmi or 'vmi'}"


@settings(max_examples=sample(100), deadline=None)
@given(anything, st.sampled_from(["PCI", "MDEV_PCI", "USB"]))
def test_any_value_of_a_variable_is_an_address_or_a_typed_refusal(value: str, prefix: str) -> None:
    raw = {"spec": {"domain": {"devices": {"hostDevices": [{"name": "h", "deviceName": "v.com/x"}]}}}}
    with pytest.raises(LauncherError) as refusal:
        convert(raw, AddressSources({f"{prefix}_RESOURCE_V_COM_X": "!" + value}))
    assert refusal.value.reason == "MalformedAddress"
    assert refusal.value.subject == "hostDevices/h"
