"""The finding on a KubeVirt object that removes the node driver's mediated devices (D-60)."""

from __future__ import annotations

from typing import Any

import pytest

from virt_dra.api.reading.documents import Document, DocumentSource
from virt_dra.api.reading.scheme import read_object
from webhooks.lint import LintSettings, lint_documents

Json = dict[str, Any]
DRIVER = "passthrough.virt-dra.io"
GATE = "DisableMDEVConfiguration"


def kubevirt(
    version: str = "v1.9.0", permitted: dict[str, bool] | None = None, made: Json | None = None, **gates: list[str]
) -> Json:
    """``permitted``: selector of mdevs -> whether somebody else provides them. ``made``: what KubeVirt makes itself."""
    mdevs = [
        {"mdevNameSelector": selector, "resourceName": "example.com/mdev", "externalResourceProvider": external}
        for selector, external in (permitted or {}).items()
    ]
    hosts = {"permittedHostDevices": {"mediatedDevices": mdevs}} if mdevs else {}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": {"name": "kubevirt", "namespace": "kubevirt"},
        "spec": {
            "configuration": {
                "developerConfiguration": gates,
                **hosts,
                **({"mediatedDevicesConfiguration": made} if made else {}),
            }
        },
        "status": {"observedKubeVirtVersion": version} if version else {},
    }


def policy(selected: dict[str, str] | None = None, **rest: Any) -> Json:
    """``selected``: labels of the nodes that it is for."""
    device_set = {"name": "set", "select": [{"vendor": "10de"}], **rest}
    spec: Json = {"deviceSets": [device_set], **({"nodeSelector": {"matchLabels": selected}} if selected else {})}
    return {
        "apiVersion": "virt-dra.io/v1alpha1", "kind": "VirtDraNodePolicy", "metadata": {"name": "p"}, "spec": spec,
    }  # fmt: skip


def published(kind: str, driver: str = DRIVER, **attributes: str) -> Json:
    said = {name: {"string": value} for name, value in {"kind": kind, **attributes}.items()}
    spec = {
        "driver": driver,
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "a", "attributes": said}],
    }
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "n-a"}, "spec": spec}


def node(**labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}}


def by_node(types: list[str], **selector: str) -> Json:
    return {"nodeSelector": selector, "mediatedDeviceTypes": types}


MDEVS = policy(mdevTypes=[{"type": "nvidia-231"}])


def linted(*objects: Json, existing: tuple[Json, ...] = (), **settings: Any) -> list[tuple[str, str]]:
    documents = [Document(obj, DocumentSource("input", index)) for index, obj in enumerate(objects)]
    result = lint_documents(documents, LintSettings(**settings), existing=[read_object(obj) for obj in existing])
    return [(judged.title, str(finding)) for judged in result.checked for finding in judged.findings]


def swept(release: str, patch: str, severity: str = "warning") -> list[tuple[str, str]]:
    return [
        (
            "KubeVirt kubevirt/kubevirt",
            f"{severity}: spec.configuration.developerConfiguration.featureGates: virt-handler of KubeVirt {release} "
            "removes mdevs that the node driver makes, also those that VMs use: kubectl patch kubevirt -n kubevirt "
            f'kubevirt --type merge -p \'{{"spec": {{"configuration": {{"developerConfiguration": {patch}}}}}}}\' '
            "[mdev-sweep]",
        )
    ]


@pytest.mark.parametrize(
    ("release", "version"), [("1.7.1", "v1.7.1"), ("1.9.0", "v1.9.0"), ("1.9", ""), ("1.9", "20260801_c0ffee")]
)
@pytest.mark.parametrize("mdevs", [MDEVS, published("mdev")], ids=["policy", "slice"])
def test_a_kubevirt_that_removes_mdevs_is_found_beside_what_makes_them(mdevs: Json, release: str, version: str) -> None:
    patch = f'{{"featureGates": ["GPUsWithDRA", "{GATE}"]}}'
    assert linted(kubevirt(version, featureGates=["GPUsWithDRA"]), mdevs) == swept(release, patch)


def test_a_gate_in_both_lists_has_to_leave_one() -> None:
    patch = '{"disabledFeatureGates": ["Root"]}'
    here = kubevirt(featureGates=[GATE], disabledFeatureGates=[GATE, "Root"])
    assert linted(here, MDEVS) == swept("1.9.0", patch)


@pytest.mark.parametrize(
    "objects",
    [
        (kubevirt(featureGates=[GATE]), MDEVS),
        (kubevirt("v1.9.1"), MDEVS),
        (kubevirt("v1.10.0"), published("mdev")),
        (kubevirt(), policy(numVFs=4)),
        (kubevirt(), published("vgpu")),
        (kubevirt(), published("mdev", "gpu.example.com")),
        (kubevirt(),),
        (MDEVS, published("mdev")),
        (kubevirt(permitted={"nvidia-231": True}), MDEVS),
        (kubevirt(permitted={"GRID T4-2Q": True}), published("mdev", mdevType="nvidia-231", mdevTypeName="GRID T4-2Q")),
        (kubevirt(permitted={"\tGRID_T4-2Q\n": True}), policy(mdevTypes=[{"type": "GRID T4-2Q"}])),
    ],
)
def test_what_is_never_swept_is_no_finding(objects: tuple[Json, ...]) -> None:
    assert linted(*objects) == []


@pytest.mark.parametrize(
    "permitted",
    [
        {"nvidia-231": False},
        {"nvidia-232": True},
        {"nvidia-231": True, "nvidia-232": False},
        {"nvidia-231": True, "nvidia-232 ": True},
    ],
)
def test_only_types_that_somebody_else_provides_are_left_alone(permitted: dict[str, bool]) -> None:
    both = policy(mdevTypes=[{"type": "nvidia-231"}, {"type": "nvidia-232"}])
    assert linted(kubevirt(permitted=permitted), both) == swept("1.9.0", f'{{"featureGates": ["{GATE}"]}}')


def test_mdevs_of_the_cluster_count_and_the_severity_is_the_users() -> None:
    patch = f'{{"featureGates": ["{GATE}"]}}'
    assert linted(kubevirt(), existing=(published("mdev"),), deny={"mdev-sweep"}) == swept("1.9.0", patch, "denial")
    assert linted(kubevirt(), MDEVS, ignore={"mdev-sweep"}) == []


GENERAL, OTHERS = {"mediatedDeviceTypes": ["nvidia-231"]}, {"mediatedDeviceTypes": ["nvidia-222"]}
T4 = published("mdev", mdevType="nvidia-231", mdevTypeName="GRID T4-2Q")
LABELLED = node(gpu="t4", zone="a")


@pytest.mark.parametrize(
    ("made", "objects", "is_swept"),
    [
        (GENERAL, (MDEVS,), False),
        (GENERAL, (T4,), False),
        ({"mediatedDevicesTypes": ["nvidia-231"]}, (MDEVS,), False),
        ({**OTHERS, "mediatedDevicesTypes": ["nvidia-231"]}, (MDEVS,), True),
        ({"mediatedDeviceTypes": ["GRID_T4-2Q"]}, (T4,), False),
        ({"mediatedDeviceTypes": ["GRID T4-2Q"]}, (T4,), True),
        ({"mediatedDeviceTypes": ["nvidia-2310"]}, (T4,), True),
        ({**OTHERS, "nodeMediatedDeviceTypes": [by_node(["nvidia-231"], gpu="t4")]}, (T4, LABELLED), False),
        ({**OTHERS, "nodeMediatedDeviceTypes": [by_node(["nvidia-231"], gpu="a10")]}, (T4, LABELLED), True),
        ({**GENERAL, "nodeMediatedDeviceTypes": [by_node(["nvidia-222"], gpu="t4")]}, (T4, LABELLED), True),
        ({**GENERAL, "nodeMediatedDeviceTypes": [by_node(["nvidia-222"], gpu="a10")]}, (T4, LABELLED), False),
        ({**GENERAL, "nodeMediatedDeviceTypes": [by_node([], gpu="t4")]}, (T4, LABELLED), False),
        (
            {"nodeMediatedDeviceTypes": [by_node(["nvidia-222"], gpu="t4"), by_node(["nvidia-231"], zone="a")]},
            (T4, LABELLED),
            False,
        ),
        ({"nodeMediatedDeviceTypes": [by_node(["nvidia-231"], gpu="t4", zone="b")]}, (T4, LABELLED), True),
        ({"nodeMediatedDeviceTypes": [by_node(["nvidia-231"])]}, (T4, LABELLED), False),
        ({"nodeMediatedDeviceTypes": [by_node(["nvidia-231"], gpu="t4")]}, (T4,), False),
        ({"nodeMediatedDeviceTypes": [by_node(["nvidia-222"], gpu="t4")]}, (T4,), True),
        (
            {"nodeMediatedDeviceTypes": [by_node(["nvidia-231"], gpu="t4")]},
            (policy({"zone": "a"}, mdevTypes=[{"type": "nvidia-231"}]), LABELLED),
            False,
        ),
        (
            {"nodeMediatedDeviceTypes": [by_node(["nvidia-231"], gpu="a10")]},
            (policy({"zone": "a"}, mdevTypes=[{"type": "nvidia-231"}]), LABELLED),
            True,
        ),
        (OTHERS, (policy({"zone": "b"}, mdevTypes=[{"type": "nvidia-231"}]), LABELLED), False),
        (OTHERS, (policy({"zone": "a"}, mdevTypes=[{"type": "nvidia-231"}]), LABELLED), True),
    ],
    ids=[
        "general", "general, of a slice", "old spelling", "old spelling beside the new", "name", "name with a space",
        "longer id", "selected", "not selected", "selected instead of general", "general where none is selected",
        "selected without types", "two selected", "half selected", "every node", "labels unknown, named for some",
        "labels unknown, named for none", "policy and selected", "policy and not selected", "policy of other nodes",
        "policy of this node",
    ],
)  # fmt: skip
def test_what_kubevirt_makes_itself_on_a_node_is_left_alone_there(
    made: Json, objects: tuple[Json, ...], is_swept: bool
) -> None:
    outcome = swept("1.9.0", f'{{"featureGates": ["{GATE}"]}}') if is_swept else []
    assert linted(kubevirt(made=made), *objects) == outcome
