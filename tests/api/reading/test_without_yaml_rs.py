"""yaml-rs makes reading large YAML faster and nothing else: without it the same texts give the same objects
(docs/decisions/0015)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import yaml

from virt_dra.cluster.files import read_inputs

WITHOUT = """
import json, sys
sys.modules["yaml_rs"] = None
from virt_dra.cluster.files import read_inputs
import virt_dra.cli.main
assert "virt_dra.api.reading.yaml_fast" not in sys.modules
print(json.dumps([read.object.to_wire() for read in read_inputs(sys.argv[1:]).objects]))
"""


def test_large_yaml_gives_the_same_objects_without_the_fast_parser(tmp_path: Path) -> None:
    devices = [
        {"name": f"gpu-{number}", "attributes": {"model": {"string": "0000:01:00.0"}, "count": {"int": number}}}
        for number in range(100)
    ]
    objects = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"slice-{number}"},
            "spec": {
                "driver": "gpu.example.com",
                "allNodes": True,
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 20},
                "devices": devices,
            },
        }
        for number in range(20)
    ]
    file = tmp_path / "slices.yaml"
    file.write_text(
        yaml.dump_all(objects, Dumper=type("Plain", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})),
        encoding="utf-8",
    )
    assert file.stat().st_size > 128 * 1024  # shorter texts don't go the fast way
    answer = subprocess.run([sys.executable, "-c", WITHOUT, file], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    with_it = [read.object.to_wire() for read in read_inputs([str(file)]).objects]
    assert json.loads(answer.stdout) == with_it
    assert len(with_it) == 20
