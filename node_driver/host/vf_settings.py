"""A program: ``python -I vf_settings.py INTERFACE VF [SETTINGS]`` changes settings of a VF at its physical function's
interface, if some are given as JSON, and prints what they all are then. A setting that the kernel refuses is named,
with exit code 1.

In a process of its own since the kernel's answer waits for the card's firmware, and since pyroute2 is large.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

LINK_STATES: Final = ("auto", "enable", "disable")
"""By their numbers."""
WITH_VFS: Final = 1
"""Flag of a request for links: RTEXT_FILTER_VF."""


def settings(vf_info: Mapping[str, Any]) -> dict[str, Any]:
    """What the kernel shows of a VF: attribute of IFLA_VF_INFO -> its fields. What a card doesn't have is absent."""
    fields = (
        ("mac", "IFLA_VF_MAC", "mac"),
        ("vlan", "IFLA_VF_VLAN", "vlan"),
        ("vlanQos", "IFLA_VF_VLAN", "qos"),
        ("spoofCheck", "IFLA_VF_SPOOFCHK", "spoofchk"),
        ("trust", "IFLA_VF_TRUST", "trust"),
        ("minTxRate", "IFLA_VF_RATE", "min_tx_rate"),
        ("maxTxRate", "IFLA_VF_RATE", "max_tx_rate"),
        ("linkState", "IFLA_VF_LINK_STATE", "link_state"),
    )
    values = {name: vf_info[attribute][field] for name, attribute, field in fields if attribute in vf_info}
    for name in ("spoofCheck", "trust"):
        if values.get(name) == 2**32 - 1:  # what a card without it shows
            del values[name]
        elif name in values:
            values[name] = bool(values[name])
    if "linkState" in values:
        values["linkState"] = LINK_STATES[values["linkState"]]
    return values


def link_requests(wanted: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The requests that set what is wanted: names of settings, and what pyroute2 sends. VLAN and priority go together,
    and so do the rates."""
    merged = {**now, **wanted}
    if "mac" in wanted:
        yield "mac", {"mac": wanted["mac"]}
    if wanted.keys() & {"vlan", "vlanQos"}:
        yield "vlan", {"vlan": {"vlan": merged.get("vlan", 0), "qos": merged.get("vlanQos", 0)}}
    if "spoofCheck" in wanted:
        yield "spoofCheck", {"spoofchk": int(wanted["spoofCheck"])}
    if "trust" in wanted:
        yield "trust", {"trust": int(wanted["trust"])}
    if wanted.keys() & {"minTxRate", "maxTxRate"}:
        rates = {"min_tx_rate": merged.get("minTxRate", 0), "max_tx_rate": merged.get("maxTxRate", 0)}
        yield "minTxRate, maxTxRate", {"rate": rates}
    if "linkState" in wanted:
        yield "linkState", {"link_state": LINK_STATES.index(wanted["linkState"])}


def vf_infos(link: Any) -> Iterator[dict[str, Any]]:
    """The attributes of each VF in a link message of pyroute2."""
    vfs = link.get_attr("IFLA_VFINFO_LIST")
    for vf in vfs.get_attrs("IFLA_VF_INFO") if vfs is not None else ():
        yield dict(vf["attrs"])


def main(interface: str, vf: int, wanted: Mapping[str, Any]) -> int:
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    def now() -> dict[str, Any]:
        (link,) = route.get_links(index, ext_mask=WITH_VFS)
        infos = {info["IFLA_VF_MAC"]["vf"]: info for info in vf_infos(link)}
        return settings(infos[vf])

    with IPRoute() as route:
        (index,) = route.link_lookup(ifname=interface)
        for names, change in link_requests(wanted, now()):
            try:
                route.link("set", index=index, vf={"vf": vf, **change})
            except NetlinkError as error:
                _print(f"{names}: {os.strerror(error.code)}")
                return 1
        _print(json.dumps(now(), sort_keys=True))
    return 0


def _print(text: str) -> None:
    os.write(1, text.encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]) if sys.argv[3:] else {}))
