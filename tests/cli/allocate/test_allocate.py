"""``virt-dra allocate`` on manifests and dumps as a user meets it: tables, trees, documents, exit codes, and what bad
input is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from virt_dra.cli.documents.heads import output_document
from virt_dra.cli.main import cli

EXAMPLES = Path(__file__).parents[3] / "examples"

CLUSTER = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-a-gpus}
spec:
  driver: gpu.example.com
  nodeName: node-a
  pool: {name: node-a, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: gpu-0, attributes: {model: {string: A100}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-b-gpus}
spec:
  driver: gpu.example.com
  nodeName: node-b
  pool: {name: node-b, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: gpu-0, attributes: {model: {string: H100}}}
  - {name: gpu-1, attributes: {model: {string: H100}}}
"""
DEVICE_CLASS = CLUSTER.partition("---\n")[0]


def _claim(name: str, count: int = 1, namespace: str | None = None, **more: Any) -> str:
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count}}]
    spec = {"devices": {"requests": requests}}
    return "---\n" + yaml.safe_dump(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec, **more}
    )


def _allocation(*devices: tuple[str, str]) -> dict[str, Any]:
    results = [
        {"request": "gpu", "driver": "gpu.example.com", "pool": pool, "device": device} for pool, device in devices
    ]
    return {"allocation": {"devices": {"results": results}}}


def _run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(cli, ["allocate", *arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def test_claims_are_allocated_one_after_the_other_on_the_first_node_that_fits() -> None:
    result = _run("-f", "-", stdin=CLUSTER + _claim("one") + _claim("two", 2, namespace="team"))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "CLAIM         NODE     REQUEST   DEVICE                         DETAILS",
        "default/one   node-a   gpu       gpu.example.com/node-a/gpu-0",
        "team/two      node-b   gpu       gpu.example.com/node-b/gpu-0",
        "team/two      node-b   gpu       gpu.example.com/node-b/gpu-1",
    ]


def test_what_is_allocated_in_the_dump_is_in_use() -> None:
    items = list(yaml.safe_load_all(CLUSTER + _claim("used", status=_allocation(("node-a", "gpu-0"))) + _claim("new")))
    result = _run("-f", "-", "-o", "json", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "apiVersion": "output.virt-dra.io/v1",
        "kind": "AllocationReport",
        "allocated": True,
        "answers": [
            {
                "claims": ["default/new"],
                "allocated": True,
                "node": "node-b",
                "message": None,
                "nodes": [
                    {
                        "node": "node-a",
                        "verdict": "refused",
                        "summary": "cannot allocate all claims",
                        "results": None,
                        "explanation": None,
                    },
                    {
                        "node": "node-b",
                        "verdict": "fits",
                        "summary": None,
                        "results": [
                            {
                                "devices": {
                                    "results": [
                                        {
                                            "request": "gpu",
                                            "driver": "gpu.example.com",
                                            "pool": "node-b",
                                            "device": "gpu-0",
                                        }
                                    ]
                                },
                                "nodeSelector": {
                                    "nodeSelectorTerms": [
                                        {
                                            "matchFields": [
                                                {"key": "metadata.name", "operator": "In", "values": ["node-b"]}
                                            ]
                                        }
                                    ]
                                },
                            }
                        ],
                        "explanation": None,
                    },
                ],
            }
        ],
    }


def test_a_claim_that_fits_nowhere_is_told_in_one_line_and_makes_exit_code_one() -> None:
    result = _run(
        "-f", "-", stdin=CLUSTER + _claim("used", 1, status=_allocation(("node-a", "gpu-0"))) + _claim("big", 3)
    )
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "CLAIM         NODE   REQUEST   DEVICE   DETAILS",
        "default/big   -      -         -        0/2 nodes are available: 1 device in use, 1 too few devices.",
    ]
    assert result.stderr == "-v shows what refused each device\n"


def test_explain_shows_a_tree_per_node_and_request() -> None:
    used = _claim("used", status=_allocation(("node-a", "gpu-0"), ("node-b", "gpu-1")))
    result = _run("-f", "-", "-v", stdin=CLUSTER + used + _claim("pair", 2))
    assert result.exit_code == 1
    assert result.stdout.splitlines()[2:] == [
        "",
        "default/pair on node node-a: device in use",
        "└── claim default/pair, request gpu: 0 of 2 devices at best",
        "    └── gpu.example.com/node-a/gpu-0: DeviceInUse: allocated to another claim",
        "",
        "default/pair on node node-b: device in use",
        "└── claim default/pair, request gpu: 1 of 2 devices at best",
        "    └── gpu.example.com/node-b/gpu-1: DeviceInUse: allocated to another claim",
    ]


def test_explain_as_data_has_every_refusal() -> None:
    used = _claim("used", status=_allocation(("node-a", "gpu-0")))
    result = _run("-f", "-", "-v", "--node", "node-a", "-o", "yaml", stdin=CLUSTER + used + _claim("one"))
    assert result.exit_code == 1
    (answer,) = yaml.safe_load(result.stdout)["answers"]
    assert answer["message"] == "0/1 nodes are available: 1 device in use."
    assert answer["nodes"][0]["explanation"] == {
        "node": "node-a",
        "reason": "DeviceInUse",
        "summary": "device in use",
        "devices": 1,
        "pools": [],
        "requests": [
            {
                "claim": "default/one",
                "request": "gpu",
                "wanted": 1,
                "placed": 0,
                "overLimit": False,
                "rejections": [
                    {
                        "device": "gpu.example.com/node-a/gpu-0",
                        "reason": "DeviceInUse",
                        "summary": "device in use",
                        "detail": "allocated to another claim",
                    }
                ],
            }
        ],
    }


def test_nodes_that_refuse_alike_are_one_tree() -> None:
    nodes = "".join(f"---\napiVersion: v1\nkind: Node\nmetadata: {{name: n{i}}}\n" for i in range(23))
    result = _run("-f", "-", "-v", stdin=CLUSTER + nodes + _claim("one"))
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1].endswith("0/23 nodes are available: 23 no device on the node.")
    assert result.stdout.splitlines()[3:] == [
        "default/one on 23 nodes (n0, n1, n2, n3, n4 and 18 more): no device on the node",
        "├── no device is accessible from these nodes",
        "└── claim default/one, request gpu: 0 of 1 device at best",
    ]


def test_nodes_that_refuse_differently_are_shown_up_to_a_limit() -> None:
    slices = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"s{number}"},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": f"n{number}",
                "pool": {"name": f"n{number}", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"gpu-{device}"} for device in range(number)],
            },
        }
        for number in range(1, 24)
    ]
    result = _run("-f", "-", "-v", stdin=DEVICE_CLASS + "---\n" + yaml.safe_dump_all(slices) + _claim("big", 30))
    lines = result.stdout.splitlines()
    assert lines[1] == "default/big   -      -         -        0/23 nodes are available: 23 too few devices."
    assert [line for line in lines if line.startswith("└")] == [
        f"└── claim default/big, request gpu: {placed} of 30 devices at best" for placed in range(1, 21)
    ]
    assert lines[-1] == "and 3 more nodes; -o json shows all, --node NAME one of them"


def test_quiet_shows_only_what_does_not_fit() -> None:
    fits = _run("-f", "-", "-q", stdin=CLUSTER + _claim("one"))
    assert (fits.exit_code, fits.output) == (0, "")
    result = _run("-f", "-", "-q", stdin=CLUSTER + _claim("one") + _claim("big", 3))
    assert (result.exit_code, result.stdout.splitlines()) == (
        1,
        [
            "CLAIM         NODE   REQUEST   DEVICE   DETAILS",
            "default/big   -      -         -        0/2 nodes are available: 1 device in use, 1 too few devices.",
        ],
    )


def test_all_nodes_takes_nothing() -> None:
    result = _run("-f", "-", "--all-nodes", stdin=CLUSTER + _claim("pair", 2) + _claim("one"))
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "CLAIM          NODE     REQUEST   DEVICE                         DETAILS",
        "default/pair   node-a   -         -                              too few devices",
        "default/pair   node-b   gpu       gpu.example.com/node-b/gpu-0",
        "default/pair   node-b   gpu       gpu.example.com/node-b/gpu-1",
        "default/one    node-a   gpu       gpu.example.com/node-a/gpu-0",
        "default/one    node-b   gpu       gpu.example.com/node-b/gpu-0",
    ]


def test_claims_that_are_named_are_placed_together_and_in_that_order() -> None:
    text = CLUSTER + _claim("one") + _claim("two") + _claim("three", 3)
    result = _run("-f", "-", "--claim", "two", "--claim", "default/one", stdin=text)
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["default/two", "node-b", "gpu", "gpu.example.com/node-b/gpu-0"],
        ["default/one", "node-b", "gpu", "gpu.example.com/node-b/gpu-1"],
    ]


def test_manifests_with_templates_only_are_tried_as_claims(tmp_path: Path) -> None:
    result = _run(str(EXAMPLES / "gpu-pci"))
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["gpu-test1/single-gpu", "node-1", "gpu", "gpu.example.com/node-1/pgpu-0"]
    ]


def test_taint_rules_of_the_input_count() -> None:
    rule = """
---
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: broken}
spec: {deviceSelector: {driver: gpu.example.com, pool: node-a}, taint: {key: broken, effect: NoSchedule}}
"""
    result = _run("-f", "-", stdin=CLUSTER + rule + _claim("one"))
    assert result.stdout.splitlines()[1].split() == ["default/one", "node-b", "gpu", "gpu.example.com/node-b/gpu-0"]


def test_features_can_be_switched() -> None:
    tainted = CLUSTER.replace("attributes: {model: {string: A100}}", "taints: [{key: k, effect: NoSchedule}]")
    text = tainted + _claim("one")
    assert _run("-f", "-", "--node", "node-a", stdin=text).exit_code == 1
    assert (
        _run(
            "-f",
            "-",
            "--node",
            "node-a",
            "--feature-gates",
            "DRADeviceTaints=false,DRADeviceTaintRules=false",
            stdin=text,
        ).exit_code
        == 0
    )


def test_an_error_of_the_allocator_is_shown_as_the_reference_words_it() -> None:
    result = _run("-f", "-", stdin=CLUSTER.replace("{name: gpu}\nspec", "{name: other}\nspec") + _claim("one"))
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1].endswith(
        "claim default/one, request gpu: could not retrieve device class "
        'gpu: deviceclass.resource.k8s.io "gpu" not found'
    )
    assert result.stderr == ""


TEMPLATE = """---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: t, namespace: team}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
"""

BAD_CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: bad}
spec:
  devices:
    requests:
    - {name: GPU, exactly: {deviceClassName: gpu, count: -1}}
    constraints:
    - {matchAttribute: model}
"""


def test_objects_that_break_rules_are_refused_with_every_fault_and_its_place(tmp_path: Path) -> None:
    path = tmp_path / "claim.yaml"
    path.write_text(BAD_CLAIM)
    result = _run("-f", str(path), "-f", "-", stdin=CLUSTER)
    assert result.exit_code == 2
    head = f"error: {path}:2: ResourceClaim default/bad: spec.devices"
    assert [line[: len(head)] for line in result.stderr.splitlines()] == [head] * 3
    assert [line[len(head) :].split(": ")[0] for line in result.stderr.splitlines()] == [
        ".requests[0].name",
        ".requests[0].exactly.count",
        ".constraints[0].matchAttribute",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "devices", "told"),
    [
        (_claim("a") + _claim("a"), 1, ""),
        (_claim("a") + _claim("a", namespace="default"), 1, ""),
        (_claim("a", 2) + _claim("a"), 1, "ResourceClaim default/a is given with different content at "),
        (_claim("a") + _claim("a", 2), 2, "ResourceClaim default/a is given with different content at "),
        ("---" + CLUSTER + _claim("a"), 1, ""),
    ],
)
def test_of_an_object_that_is_given_twice_the_last_one_counts(text: str, devices: int, told: str) -> None:
    result = _run("-f", "-", "-o", "json", stdin=CLUSTER + text.removeprefix("\n"))
    assert result.exit_code == 0
    (answer,) = json.loads(result.stdout)["answers"]
    (allocation,) = answer["nodes"][-1]["results"]
    assert len(allocation["devices"]["results"]) == devices
    assert result.stderr.startswith(told) if told else result.stderr == ""


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("kind: [", "standard input:2: column 1: not YAML: "),
        ("apiVersion: v1\nkind: Node\nmetadata: {name: 1}", "standard input:1: Node: metadata.name: "),
        (CLUSTER, "the input has no ResourceClaim (and no ResourceClaimTemplate) to allocate"),
        (
            CLUSTER + _claim("a", status=_allocation(("node-a", "gpu-0"))) + _claim("a"),
            "every claim of the input is already allocated\n",
        ),
        (
            CLUSTER + _claim("a", status=_allocation(("node-a", "gpu-0"))),
            "every claim of the input is already allocated\n",
        ),
        (
            CLUSTER + _claim("a", status=_allocation(("node-a", "gpu-0"))) + TEMPLATE,
            "every claim of the input is already allocated; --claim NAME allocates a claim of a template: team/t\n",
        ),
        (
            _claim("a"),
            "no node to allocate on: neither a Node nor a ResourceSlice that names one; --node NAME makes one up",
        ),
        ("", "standard input: contains no objects"),
    ],
)
def test_unusable_input_is_exit_code_two_with_the_reason(text: str, error: str) -> None:
    result = _run("-f", "-", stdin=text)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {error}")
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["--claim", "default/ome"],
            "no claim or template default/ome in the input; did you mean default/one or default/done?",
        ),
        (["--claim", "x/y"], "no claim or template x/y in the input; it has default/one, default/done"),
        (
            ["--claim", "done"],
            "claim default/done is already allocated; remove its status.allocation to have it allocated again",
        ),
        (["--node", "node-c"], "no node node-c in the input; did you mean node-b or node-a?"),
    ],
)
def test_names_that_are_not_there_are_told_with_what_is(arguments: list[str], error: str) -> None:
    text = CLUSTER + _claim("one") + _claim("done", status=_allocation(("node-a", "gpu-0")))
    result = _run("-f", "-", *arguments, stdin=text)
    assert (result.exit_code, result.stderr) == (2, f"error: {error}\n")
    document = json.loads(_run("-f", "-", *arguments, "-o", "json", stdin=text).stdout)
    assert document == output_document("Error", {"error": error, "problems": [error]})


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    result = _run("-f", str(tmp_path / "none.yaml"), str(tmp_path))
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"error: {tmp_path}/none.yaml: no such file or folder",
        f"error: {tmp_path}: no manifests in this folder; they must end in .yaml, .yml, .json",
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "name what to read with -f FILE or --live (or use --jsonl or --workload)"),
        (["-f", "-", "--node", "a", "--all-nodes"], "--node and --all-nodes exclude each other"),
        (["--jsonl", "-f", "x"], "-f does not go with --jsonl"),
        (["--jsonl", "-v"], "-v does not go with --jsonl"),
        (["--jsonl", "a", "b"], "--jsonl reads one file, or standard input"),
        (["--workload", "w", "--jsonl"], "--workload does not go with --jsonl"),
        (["--workload", "w", "more"], "--workload takes one file; what is 'more'?"),
        (["-f", "-", "--candidates", "auto"], "--candidates goes with --workload"),
        (["-f", "-", "--node", ""], "Invalid value for '--node': '' can't be the name of a node"),
        (["-f", "-", "-n", "A_B"], "Invalid value for '-n' / '--namespace': 'A_B' can't be the name of a namespace"),
    ],
)
def test_bad_usage_is_told(arguments: list[str], error: str) -> None:
    result = _run(*arguments, stdin="")
    assert result.exit_code == 2
    assert f"Error: {error}" in result.stderr
