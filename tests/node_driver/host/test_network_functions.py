"""Settings of network VFs: as the kernel's messages have them, and refused where there are none."""

from __future__ import annotations

from typing import Any

import pytest
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.requests.link import LinkIPRouteFilter

from devtools.node.faults import Fault, Process
from devtools.node.kernel import Function, Kernel, Link, ProcessKernel, ProcessPrograms
from node_driver.host.changes import HostError, TargetGone
from node_driver.host.network_functions import NetworkFunctions
from node_driver.host.vf_settings import link_requests, settings, vf_infos

ALL = {
    "mac": "02:00:00:00:00:01",
    "vlan": 100,
    "vlanQos": 3,
    "spoofCheck": True,
    "trust": False,
    "minTxRate": 10,
    "maxTxRate": 1000,
    "linkState": "disable",
}
NOW = {"vlan": 7, "vlanQos": 1, "minTxRate": 5, "maxTxRate": 50}


def as_the_kernel_has_it(changes: list[dict[str, Any]]) -> dict[str, Any]:
    """Settings after a message with these requests has gone through pyroute2's encoder and decoder."""
    attributes: list[Any] = []
    for change in changes:
        (vf,) = LinkIPRouteFilter("set").get_vf({"vf": 4, **change})["attrs"]
        attributes += vf[1]["attrs"]
    message = ifinfmsg()
    message["attrs"] = [("IFLA_VFINFO_LIST", {"attrs": [("IFLA_VF_INFO", {"attrs": attributes})]})]
    message.encode()
    decoded = ifinfmsg(message.data)
    decoded.decode()
    (info,) = vf_infos(decoded)
    return settings(info)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (ALL, ALL),
        ({"vlan": 100}, {"vlan": 100, "vlanQos": 1}),
        ({"maxTxRate": 70}, {"minTxRate": 5, "maxTxRate": 70}),
        ({"linkState": "auto", "trust": True}, {"linkState": "auto", "trust": True}),
        ({}, {}),
    ],
)
def test_what_is_asked_for_reaches_the_kernels_message(wanted: dict[str, Any], expected: dict[str, Any]) -> None:
    assert as_the_kernel_has_it([change for _, change in link_requests(wanted, NOW)]) == expected


def test_what_a_card_doesnt_have_is_absent() -> None:
    assert settings({"IFLA_VF_TRUST": {"vf": 0, "trust": 2**32 - 1}, "IFLA_VF_MAC": {"vf": 0, "mac": "0"}}) == {
        "mac": "0"
    }


VF, PF = "0000:07:00.3", "0000:07:00.0"


def network(
    files: dict[str, Any], vf_files: dict[str, Any] | None = None, fault: Fault = Fault.NONE
) -> NetworkFunctions:
    kernel = Kernel()
    kernel.add(Function(PF, 1, files=files))
    kernel.add(Function(VF, 2, files={"physfn": Link(PF)} if vf_files is None else vf_files))
    kernel.vf_settings = {VF: {"mac": "02:aa:00:00:00:01", "vlan": 0}}
    process = Process(lambda step: fault)
    return NetworkFunctions(ProcessKernel(kernel, process), ProcessPrograms(kernel, process))


CARD = {"net": {"enp7": {"type": "1", "phys_switch_id": ""}}, "virtfn0": Link("0000:07:00.1"), "virtfn2": Link(VF)}


async def test_settings_are_made_through_the_physical_function_and_read_back() -> None:
    functions = network(CARD)

    await functions.set_value(VF, '{"mac": null, "vlan": 9}')

    assert await functions.value(VF) == '{"mac": "02:aa:00:00:00:01", "vlan": 9}'


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (
            network(CARD, {}),
            f"{VF} is no VF: the parameters' field network applies to VFs of network cards only",
        ),
        (
            network({"virtfn2": Link(VF)}),
            f"{VF} belongs to {PF}, which is no Ethernet card: the parameters' field network applies to Ethernet "
            "functions only",
        ),
        (
            network({**CARD, "net": {"ib0": {"type": "32"}}}),
            f"{VF} belongs to {PF}, which is no Ethernet card: the parameters' field network applies to Ethernet "
            "functions only",
        ),
        (
            network({**CARD, "net": {"enp7": {"type": "1", "phys_switch_id": "0af1"}}}),
            f"{VF} belongs to {PF}, which is in switchdev mode: the parameters' field network applies to legacy mode "
            "only; set up its representor instead",
        ),
        (
            network(CARD, fault=Fault.REFUSED),
            f"network function {VF} can't be set through enp7: vlan: Operation not supported",
        ),
        (network(CARD, fault=Fault.STUCK), f"network function {VF} didn't take its settings: vlan is 0, not 9"),
    ],
    ids=["no-vf", "no-network", "infiniband", "switchdev", "refused", "ignored"],
)
async def test_a_function_without_such_settings_is_refused(functions: NetworkFunctions, message: str) -> None:
    with pytest.raises(HostError) as refused:
        await functions.set_value(VF, '{"vlan": 9}')
    assert str(refused.value) == message


async def test_a_function_that_is_gone_has_nothing_to_put_back() -> None:
    with pytest.raises(TargetGone):
        await network(CARD).set_value("0000:09:00.1", "{}")
