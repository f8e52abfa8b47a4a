"""How long 100,000 devices take from text to typed objects, as YAML and as JSON, next to PyYAML's C loader alone on the
same text.

Run: ``python -m bench load``. Times are seconds of this process' CPU time: the better of two runs, and one run for
PyYAML.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import yaml

from virt_dra.api.reading.documents import read_objects
from virt_dra.api.reading.yaml_writing import write_documents, write_yaml

DEVICES = 100_000
DEVICES_PER_SLICE = 128


ODD = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd"}, "data": {"text": "é\n- yes\n"}}
"""An object that only the exact reader may read."""


def resource_slices(devices: int) -> list[dict[str, Any]]:
    """ResourceSlices as a GPU driver publishes them: 128 devices each, five attributes and one capacity per device."""
    slices = []
    for first in range(0, devices, DEVICES_PER_SLICE):
        node = f"node-{first // DEVICES_PER_SLICE}"
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        indices = range(first, min(first + DEVICES_PER_SLICE, devices))
        spec = {
            "driver": "gpu.example.com",
            "nodeName": node,
            "pool": pool,
            "devices": [_device(index) for index in indices],
        }
        slices.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": f"{node}-gpu"},
                "spec": spec,
            }
        )
    return slices


def _device(index: int) -> dict[str, Any]:
    attributes = {
        "resource.kubernetes.io/pciBusID": {
            "string": f"{index >> 16:04x}:{index >> 8 & 255:02x}:{index >> 3 & 31:02x}.{index & 7}"
        },
        "driverVersion": {"version": "570.86.15"},
        "productName": {"string": "Example A100-SXM4-80GB"},
        "numa": {"int": index % 8},
        "mig": {"bool": index % 2 == 0},
    }
    return {"name": f"gpu-{index}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def seconds(run: Callable[[], object], repeat: int) -> float:
    """The least CPU time of ``repeat`` runs."""
    times = []
    for _ in range(repeat):
        gc.collect()
        start = time.process_time()
        result = run()
        times.append(time.process_time() - start)
        del result
    return min(times)


def main() -> None:
    slices = resource_slices(DEVICES)
    whole = {"apiVersion": "v1", "kind": "List", "items": slices}
    texts = {
        "JSON, one List": json.dumps(whole),
        "JSON lines": "\n".join(map(json.dumps, slices)),
        "YAML, a document per slice": write_documents(slices),
        "YAML, one List": write_yaml(whole),
        "YAML, one List with an odd entry": write_yaml(whole | {"items": [*slices, ODD]}),
        "YAML with anchors (PyYAML's own dump)": yaml.dump(
            whole | {"items": [_shared(s) for s in slices]}, Dumper=yaml.CSafeDumper
        ),
    }
    rows = [("input", "MB", "typed objects", "PyYAML CSafeLoader")]
    for name, text in texts.items():
        data = text.encode()
        ours = seconds(partial(read_objects, data, "bench"), 2)
        peer = f"{seconds(partial(_pyyaml, text), 1):.2f}" if name == "YAML, a document per slice" else "-"
        rows.append((name, f"{len(data) / 1e6:.1f}", f"{ours:.2f}", peer))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    sys.stdout.write(f"{DEVICES} devices in {len(slices)} ResourceSlices, seconds:\n")
    for row in rows:
        sys.stdout.write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n")


def _pyyaml(text: str) -> list[object]:
    return list(yaml.load_all(text, yaml.CSafeLoader))


def _shared(raw: dict[str, Any]) -> dict[str, Any]:
    """The slice with values shared between its devices, which PyYAML writes as anchors and aliases."""
    version, memory = {"version": "570.86.15"}, {"memory": {"value": "80Gi"}}
    devices = [
        {**d, "attributes": {**d["attributes"], "driverVersion": version}, "capacity": memory}
        for d in raw["spec"]["devices"]
    ]
    return {**raw, "spec": {**raw["spec"], "devices": devices}}


if __name__ == "__main__":
    main()
