"""Our placements and pins are those that KubeVirt's launcher answered (K-8): recorded by
``devtools.upstream.placement.record``."""

from __future__ import annotations

import json
from pathlib import Path

from launcher import LauncherError
from launcher.guest_shape import CpuShape
from launcher.host_addresses.pci import PciAddress
from launcher.placement.cpu_lists import cpu_list, parse_cpu_list
from launcher.placement.guest import GuestCell, GuestTopology, MemNode
from launcher.placement.host import HostTopology, PciLocation
from launcher.placement.numa import mirrored_cells
from launcher.placement.pinning import pin
from launcher.placement.placing import FunctionToPlace, TakenNumbers, kubevirt_rule, place
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.quantity import Quantity
from virt_dra.api.wire import Json

RECORDED = Path(__file__).parent / "kubevirt"
STRICT = "failed to process strict PCIe NUMA-aware topology: "
"""The prefix that KubeVirt's converter adds to what the program was told."""


def recorded(release: str, kind: str) -> list[tuple[Json, list[Json]]]:
    lines = (RECORDED / f"{release}.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [json.loads(line) for line in lines]
    return [
        (case["question"], case["answers"]) for case in cases if ("shape" in case["question"]) == (kind == "pinning")
    ]


def placed(question: Json, release: str) -> Json:
    host = HostTopology(
        {int(node): parse_cpu_list(cpus) if cpus else () for node, cpus in question["nodes"].items()},
        {address: PciLocation(None if node < 0 else node) for address, node in question["functions"].items()},
    )
    guest = GuestTopology(
        tuple(GuestCell(int(cell["ID"]), parse_cpu_list(cell["CPUs"])) for cell in question.get("cells", ())),
        tuple(MemNode(node["CellID"], parse_cpu_list(node["NodeSet"])) for node in question.get("memnodes", ())),
        {entry["VCPU"]: parse_cpu_list(entry["CPUSet"]) for entry in question["pins"]},
    )
    functions = [
        FunctionToPlace(str(position), PciAddress(*device["source"]), device["guest"])
        for position, device in enumerate(question["devices"])
    ]
    strict = question["strict"] and not release.startswith("1.8")
    taken = TakenNumbers(frozenset(int(controller["Index"]) for controller in question["controllers"]))
    try:
        placement = place(functions, guest, host, kubevirt_rule(KubeVirtVersion.parse(release), strict=strict), taken)
    except LauncherError as error:
        return {"error": str(error).removeprefix(STRICT)}
    prefix = "Failed to process PCIe NUMA-aware topology, falling back to default placement: "
    for warning in placement.warnings:
        if warning.startswith(prefix):
            return {"error": warning.removeprefix(prefix)}
    return {
        "controllers": [
            {"index": str(c.index), "model": c.model, "busNr": c.bus_nr, "node": c.node}
            if c.address_type is None
            else {
                "index": str(c.index),
                "model": c.model,
                "address": f"{c.address_type} {c.domain} {c.bus} {c.slot} {c.function}",
            }
            for c in placement.controllers
        ],
        "addresses": [
            f"pci 0x0000 {placement.ports[function.key]} 0x00 0x0"
            if function.key in placement.ports
            else ("pci 0x0000 0x00 0x0a 0x0" if function.has_guest_address else None)
            for function in functions
        ],
    }


def test_devices_are_placed_where_kubevirt_1_9_placed_them() -> None:
    cases = recorded("1.9.0", "placing")
    differences = [
        (question, answer, ours) for question, (answer,) in cases if (ours := placed(question, "1.9.0")) != answer
    ]

    assert differences == []
    assert sum("error" in answer for _, (answer,) in cases) < len(cases) / 2
    assert sum(len(answer.get("controllers", [])) > 1 for _, (answer,) in cases) > len(cases) / 4


def without_order(answer: Json) -> object:
    """The expanders' nodes, and the node of each device; of an error what is before the device that was tried first."""
    if "error" in answer:
        return answer["error"].partition(" device ")[0]
    node_of_expander = {c["index"]: c["node"] for c in answer["controllers"] if "node" in c}
    node_of_port = {
        c["index"]: node_of_expander[c["address"].split()[2]] for c in answer["controllers"] if "address" in c
    }
    return (
        sorted(node_of_expander.values()),
        [node_of_port.get(address.split()[2]) if address else None for address in answer["addresses"]],
    )


def test_devices_are_on_the_nodes_where_kubevirt_1_8_placed_them() -> None:
    """Its order of cells and devices is that of Go's maps, so that it has several answers; ours is that of 1.9."""
    cases = recorded("1.8.0", "placing")
    differences = [
        (question, answers, ours)
        for question, answers in cases
        for ours in (placed(question, "1.8.0"),)
        if all(without_order(answer) != without_order(ours) for answer in answers)
    ]

    assert differences == []
    assert sum(len(answers) > 1 for _, answers in cases) > len(cases) / 10
    assert sum(len(answers[0].get("controllers", [])) > 1 for _, answers in cases) > len(cases) / 4


def pinned(question: Json) -> Json:
    host = HostTopology(
        {cell["id"]: tuple(cpu["id"] for cpu in cell["cpus"]) for cell in question["topology"]},
        {},
        {cpu["id"]: tuple(cpu["siblings"]) for cell in question["topology"] for cpu in cell["cpus"]},
    )
    shape = CpuShape(*question["shape"])
    passthrough, page = question["passthrough"], question["pageSize"]
    threads = 0 if not question["isolated"] else 2 if question["even"] and shape.vcpus % 2 == 0 else 1
    try:
        pinning = pin(shape, host, question["cpus"], one_node_per_core=passthrough, emulator_threads=threads)
        memory, size = Quantity(question["memory"]).value(), Quantity(page).value() if page else None
        cells = mirrored_cells(pinning.vcpus, host, memory, size) if passthrough else ()
    except LauncherError as error:
        return {"error": str(error).partition(": ")[0]}
    answer: Json = {
        "pins": [{"VCPU": vcpu, "CPUSet": str(cpu)} for vcpu, cpu in enumerate(pinning.vcpus)],
        "numaTune": None,
    }
    if pinning.emulator:
        answer["emulator"] = cpu_list(pinning.emulator)
    if page:
        answer["pages"] = None
    if passthrough:
        answer["cells"] = [(str(cell.id), cpu_list(cell.vcpus), cell.memory) for cell in cells]
        answer["numaTune"] = [(cell.id, "strict", str(cell.node)) for cell in cells]
        answer["pages"] = [(str(size), "b", str(cell.id)) for cell in cells]
    return answer


def told(answer: Json) -> Json:
    """KubeVirt's answer in the form of ours; of errors, what is before Go structures and numbers."""
    if "error" in answer:
        return {"error": answer["error"].partition(": ")[0]}
    told = dict(answer)
    if "cells" in answer:
        told["cells"] = [(cell["ID"], cell["CPUs"], cell["Memory"]) for cell in answer["cells"]]
        told["pages"] = [(page["Size"], page["Unit"], page["NodeSet"]) for page in answer["pages"]]
        tune = answer["numaTune"]
        assert tune["Memory"] == {"Mode": "strict", "NodeSet": ",".join(node["NodeSet"] for node in tune["MemNodes"])}
        told["numaTune"] = [(node["CellID"], node["Mode"], node["NodeSet"]) for node in tune["MemNodes"]]
    return told


def is_rounded_down(question: Json) -> bool:
    """True where KubeVirt leaves vCPUs unpinned, as it rounds down how many cores it couldn't fit. Ours refuses."""
    shape = CpuShape(*question["shape"])
    return not question["passthrough"] and 0 < shape.vcpus - len(question["cpus"]) < shape.threads


def test_vcpus_are_pinned_where_kubevirt_pinned_them() -> None:
    """K-8.11 and K-8.12."""
    cases = [case for release in ("1.8.0", "1.9.0") for case in recorded(release, "pinning")]
    expected = [
        {"error": "not enough exclusive threads provided, could not fit 1 core(s)"}
        if is_rounded_down(question)
        else told(answer)
        for question, (answer,) in cases
    ]
    differences = [
        (question, want, ours)
        for (question, _), want in zip(cases, expected, strict=True)
        if (ours := pinned(question)) != want
    ]

    assert differences == []
    assert sum("cells" in want for want in expected) > len(cases) / 10
