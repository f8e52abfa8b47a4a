"""What doctor says of the node driver."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.doctor.test_doctor import facts, kubevirt
from virt_dra.api.integration.check_findings import CheckFinding
from virt_dra.doctor.checks import examine
from virt_dra.doctor.driver_checks import node_driver

Json = dict[str, Any]
DRIVER = "passthrough.virt-dra.io"


def daemon_set(wanted: int, ready: int) -> Json:
    return {
        "metadata": {"name": "virt-dra-driver", "namespace": "virt-dra-driver"},
        "status": {"desiredNumberScheduled": wanted, "numberReady": ready},
    }


def published(node: str, *kinds: str, driver: str = DRIVER) -> Json:
    devices = [{"name": f"d{n}", "attributes": {"kind": {"string": kind}}} for n, kind in enumerate(kinds)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"00000-{driver}-{node}"},
        "spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": devices},
    }


def found(**differences: Any) -> list[tuple[str, str, str]]:
    return [(finding.id, finding.level, finding.message) for finding in findings(**differences)]


def findings(**differences: Any) -> list[CheckFinding]:
    base = {"kubevirts": [], "slices": [], **differences}
    return list(node_driver(facts().__class__(**{**vars(facts()), **base})))


def test_where_it_runs_on_no_node_its_daemon_set_is_to_be_looked_at() -> None:
    """There is no pod whose log could be read."""
    (finding,) = findings(drivers=[daemon_set(0, 0)])
    assert finding.advice == (
        "kubectl describe daemonset -n virt-dra-driver virt-dra-driver: which nodes its nodeSelector and tolerations "
        "allow; without a controller of DaemonSets it has none"
    )


@pytest.mark.parametrize(
    ("drivers", "slices", "wanted"),
    [
        ([], [], []),
        ([], [published("a", "vfio", driver="gpu.example.com")], []),
        ([daemon_set(2, 2)], [published("a", "vfio", "vfio"), published("b")], [("ok", "2 devices on 1 node")]),
        ([daemon_set(2, 1)], [published("a", "vfio")], [("warning", "1 of 2 pods ready")]),
        ([daemon_set(0, 0)], [], [("warning", "it runs on no node")]),
        ([daemon_set(2, 2)], [], [("warning", "it runs on 2 nodes, and has published nothing")]),
        (
            [daemon_set(1, 1)],
            [published("a")],
            [("warning", "it runs on 1 node, and no policy names a device that they have")],
        ),
    ],
)
def test_whether_it_runs_and_publishes(drivers: list[Json], slices: list[Json], wanted: list[tuple[str, str]]) -> None:
    assert found(drivers=drivers, slices=slices) == [("node-driver", level, message) for level, message in wanted]


SWEPT = "virt-handler of KubeVirt {} removes mdevs that the node driver makes, also those that VMs use"
GATE = "DisableMDEVConfiguration"


@pytest.mark.parametrize(
    ("version", "gates", "disabled", "patch"),
    [
        ("v1.8.3", ["GPUsWithDRA"], [], {"featureGates": ["GPUsWithDRA", GATE]}),
        ("v1.9.0", [], [], {"featureGates": [GATE]}),
        ("v1.9", [], [], {"featureGates": [GATE]}),
        ("v1.9.0", [GATE], [GATE, "Root"], {"disabledFeatureGates": ["Root"]}),
        ("v1.9.0", [GATE], [], None),
        ("v1.9.1", [], [], None),
    ],
)
def test_kubevirts_sweep_of_mdevs(version: str, gates: list[str], disabled: list[str], patch: Json | None) -> None:
    here = [kubevirt("kubevirt", version, gates, disabled=disabled)]
    swept = findings(kubevirts=here, slices=[published("a", "vfio", "mdev")])
    assert [(finding.id, finding.level, finding.where, finding.message) for finding in swept] == (
        [("mdev-sweep", "error", "KubeVirt kubevirt/kubevirt", SWEPT.format(version.removeprefix("v")))]
        if patch
        else []
    )
    for finding in swept:
        command, _, text = finding.advice.partition(" -p ")
        assert command == "kubectl patch kubevirt -n kubevirt kubevirt --type merge"
        assert json.loads(text.strip("'")) == {"spec": {"configuration": {"developerConfiguration": patch}}}
    assert findings(kubevirts=here, slices=[published("a", "vfio")]) == []
    foreign = published("a", "mdev", driver="gpu.example.com")
    assert findings(kubevirts=here, slices=[foreign]) == []


@pytest.mark.parametrize(("label", "levels"), [("t4", []), ("a10", ["error"])])
def test_a_node_s_own_mdev_types_are_swept_on_other_nodes_only(label: str, levels: list[str]) -> None:
    made = {"nodeMediatedDeviceTypes": [{"nodeSelector": {"gpu": "t4"}, "mediatedDeviceTypes": ["nvidia-231"]}]}
    here = kubevirt("kubevirt", "v1.9.0", [])
    here["spec"]["configuration"]["mediatedDevicesConfiguration"] = made
    slice_ = published("a", "mdev")
    slice_["spec"]["devices"][0]["attributes"]["mdevType"] = {"string": "nvidia-231"}
    nodes = [{"metadata": {"name": "a", "labels": {"gpu": label}}}, {"metadata": {"name": "b"}}]
    assert [finding.level for finding in findings(kubevirts=[here], slices=[slice_], nodes=nodes)] == levels


def test_doctor_asks_it() -> None:
    base = vars(facts())
    swept = examine(facts().__class__(**{**base, "slices": [*base["slices"], published("a", "mdev")]}), "0.1.0")
    assert [finding.id for finding in swept if finding.id == "mdev-sweep"] == ["mdev-sweep"]
