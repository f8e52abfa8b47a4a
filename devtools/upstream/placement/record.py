"""Records what KubeVirt's launcher answers to random questions about NUMA, as data of tests/launcher/placement.

    python -m devtools.upstream.placement.record FOLDER 1.9.0 1.8.0

FOLDER gets a copy of KubeVirt's sources of each release from Go's module cache, in which the program beside this file
is built (20 minutes on two cores): its go.mod replaces modules by folders of its own, so no other module can require
it. 1.8 places cells and devices in the random order of Go's maps: it is asked again until no new answer comes.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from virt_dra.api.wire import Json

HERE: Final = Path(__file__).parent
ANSWERS: Final = Path(__file__).parents[3] / "tests" / "launcher" / "placement" / "kubevirt"
PLACEMENTS: Final = 150
PINNINGS: Final = 150
REPETITIONS: Final = 60


def program(folder: Path, release: str) -> Path:
    """The program, built unless it is there."""
    sources = folder / f"kubevirt-{release}"
    binary = folder / f"placement-{release}"
    if binary.exists():
        return binary
    if not sources.exists():
        module = f"kubevirt.io/kubevirt@v{release}"
        downloaded = subprocess.run(
            ["go", "mod", "download", "-json", module], check=True, capture_output=True, text=True
        )
        cached = json.loads(downloaded.stdout)["Dir"]  # nothing in it is writable
        subprocess.run(["cp", "-r", "--no-preserve=mode", cached, str(sources)], check=True)
    package = sources / "cmd" / "placement-witness"
    package.mkdir(parents=True, exist_ok=True)
    for file in HERE.glob("*.go"):
        shutil.copy(file, package)
    tags = "kubevirt_1_8" if release.startswith("1.8") else ""
    command = ["go", "build", "-mod=mod", "-tags", tags, "-o", str(binary), "./cmd/placement-witness"]
    subprocess.run(command, cwd=sources, check=True)
    return binary


def placement_question(chance: random.Random, devices_max: int) -> Json:
    """Devices on a host, and a guest that is bound to it, partly in ways that can't be or contradict each other."""
    nodes = chance.randint(1, 3)
    cpus = [list(range(4 * node, 4 * node + 4)) for node in range(nodes)]
    cells = chance.choice([0, 1, 2, 2, 3])
    vcpus = list(range(2 * cells + 1))
    addresses = [f"0000:{bus:02x}:00.{chance.randint(0, 1)}" for bus in chance.sample(range(1, 200), 6)]
    question: Json = {
        "nodes": {
            str(node): chance.choice(["", f"{own[0]}-{own[-1]}", f"{own[0]}-{own[-1]}", ",".join(map(str, own))])
            for node, own in enumerate(cpus)
            if chance.random() < 0.95
        },
        "functions": {
            address: chance.choice([*range(nodes), *range(nodes), -1]) for address in addresses if chance.random() < 0.9
        },
        "pins": [
            {"VCPU": vcpu, "CPUSet": str(chance.randrange(4 * nodes)) if chance.random() < 0.9 else "0-1"}
            for vcpu in vcpus
            if chance.random() < 0.8
        ],
        "controllers": [
            {"Type": chance.choice(["pci", "virtio-serial"]), "Index": str(index), "Model": "pcie-root"}
            for index in {0, chance.choice([0, 1, 7, 248, 252])}
        ],
        "devices": [
            {"source": _parts(chance.choice(addresses)), "guest": chance.random() < 0.1}
            for _ in range(chance.randint(1, devices_max))
        ],
        "strict": chance.random() < 0.4,
    }
    if cells:
        question["cells"] = [{"ID": str(cell), "CPUs": f"{2 * cell}-{2 * cell + 1}"} for cell in range(cells)]
    if chance.random() < 0.6:
        question["memnodes"] = [
            {"CellID": chance.randint(0, cells), "NodeSet": chance.choice(["0", "1", "2", "0-1", "1,2"])}
            for _ in range(chance.randint(1, 3))
        ]
    return question


def _parts(address: str) -> list[str]:
    domain, bus, rest = address.split(":")
    return [domain, bus, *rest.split(".")]


def pinning_question(chance: random.Random) -> Json:
    """A guest's CPUs, and those of its pod, which sometimes don't suffice."""
    threads, cores, nodes = chance.randint(1, 2), chance.randint(2, 6), chance.randint(1, 3)
    numbers = range(nodes * cores * threads)
    topology = [
        {
            "id": node,
            "cpus": [
                {"id": cpu, "siblings": [first + thread * nodes * cores for thread in range(threads)]}
                for cpu in numbers
                for first in (cpu % (nodes * cores),)
                if first // cores == node
            ],
        }
        for node in range(nodes)
    ]
    shape = [chance.randint(1, 2), chance.randint(1, 3), chance.randint(1, 2)]
    wanted = shape[0] * shape[1] * shape[2] + chance.choice([-1, 0, 0, 1, 1, 2, 3])
    return {
        "topology": topology,
        "cpus": sorted(chance.sample(numbers, max(1, min(wanted, len(numbers))))),
        "shape": shape,
        "passthrough": chance.random() < 0.6,
        "isolated": chance.random() < 0.5,
        "even": chance.random() < 0.5,
        "memory": chance.choice(["1Gi", "1026Mi", "3Gi", "2Mi", "1025Mi"]),
        "pageSize": chance.choice(["2Mi", "2Mi", "2Mi", "1Gi", ""]),
    }


def answers(binary: Path, questions: list[Json]) -> list[Json]:
    asked = "".join(json.dumps(question) + "\n" for question in questions)
    done = subprocess.run([binary], input=asked, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def record(binary: Path, release: str) -> None:
    chance = random.Random(f"placement {release}")
    ordered = not release.startswith("1.8")
    questions = [placement_question(chance, 5 if ordered else 3) for _ in range(PLACEMENTS)]
    questions += [pinning_question(chance) for _ in range(PINNINGS)]
    seen: list[list[Json]] = [[] for _ in questions]
    for _ in range(2 if ordered else REPETITIONS):
        for distinct, answer in zip(seen, answers(binary, questions), strict=True):
            if answer not in distinct:
                distinct.append(answer)
    ANSWERS.mkdir(exist_ok=True)
    with (ANSWERS / f"{release}.jsonl").open("w", encoding="utf-8") as file:
        for question, distinct in zip(questions, seen, strict=True):
            file.write(json.dumps({"question": question, "answers": distinct}, separators=(",", ":")) + "\n")


def main() -> None:
    folder = Path(sys.argv[1])
    for release in sys.argv[2:]:
        record(program(folder, release), release)


if __name__ == "__main__":
    main()
