"""One object more than once in an input: what counts, and what is reported."""

from __future__ import annotations

from typing import Any

import pytest

from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import Document, DocumentSource, Sourced
from virt_dra.api.reading.scheme import read_object
from virt_dra.cluster.duplicates import Applied, applied, latest

EXACT = {"deviceClassName": "gpu"}
CLAIM: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": EXACT}]}},
}
STATUS = {"allocation": {"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-0"}]}}}
LIVE: dict[str, Any] = {
    **CLAIM,
    "metadata": {
        "name": "c",
        "namespace": "default",
        "uid": "u",
        "resourceVersion": "7",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "example.com/by": "server"},
        "finalizers": ["resource.kubernetes.io/delete-protection"],
        "managedFields": [{"manager": "kubectl", "operation": "Update"}],
    },
    "spec": {
        "devices": {"requests": [{"name": "gpu", "exactly": {**EXACT, "allocationMode": "ExactCount", "count": 1}}]}
    },
    "status": STATUS,
}
OTHER = {**CLAIM, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {**EXACT, "count": 2}}]}}}


def _applied(*raw: dict[str, Any]) -> Applied:
    return applied(
        [Sourced[TypedObject](read_object(obj), DocumentSource("in", line)) for line, obj in enumerate(raw, 1)],
        "default",
    )


@pytest.mark.parametrize(
    ("given", "replaced"),
    [
        ((CLAIM, CLAIM), 0),
        ((CLAIM, {**CLAIM, "metadata": {"name": "c", "namespace": "default"}}), 0),
        ((CLAIM, {**CLAIM, "metadata": {"name": "c", "namespace": "other"}}), 0),
        ((CLAIM, LIVE), 0),
        ((LIVE, CLAIM), 0),
        ((LIVE, LIVE), 0),
        ((CLAIM, OTHER), 1),
        ((CLAIM, OTHER, CLAIM), 1),
        ((LIVE, OTHER), 1),
        ((OTHER, LIVE), 1),
        ((LIVE, {**LIVE, "status": {}}), 1),
        (({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-"}},) * 2, 0),
        (({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"a": 1}},) * 2, 0),
    ],
)
def test_different_content_is_reported(given: tuple[dict[str, Any], ...], replaced: int) -> None:
    assert len(_applied(*given).replaced) == replaced


@pytest.mark.parametrize("status", [None, {}, {"allocation": {"devices": {}}}])
def test_a_manifest_on_top_of_a_live_object_keeps_what_the_server_wrote(status: Any) -> None:
    (kept,) = _applied(LIVE, OTHER if status is None else {**OTHER, "status": status}).objects
    wire = kept.object.to_wire()
    assert wire["spec"] == OTHER["spec"]
    assert wire["status"] == STATUS
    assert wire["metadata"] == LIVE["metadata"] | {"namespace": "default"}
    assert kept.source == DocumentSource("in", 2)


def test_an_empty_status_says_nothing() -> None:
    (kept,) = _applied({**CLAIM, "status": STATUS}, {**OTHER, "status": {}}).objects
    assert kept.object.to_wire()["status"] == STATUS


def test_every_earlier_place_with_other_content_is_named() -> None:
    (replaced,) = _applied(CLAIM, CLAIM, OTHER, CLAIM, CLAIM).replaced
    assert str(replaced) == (
        "ResourceClaim default/c is given with different content at in:2, in:3 "
        "and in:5; the last one is used, as kubectl apply does"
    )


def test_of_documents_each_vm_is_there_once_with_what_the_cluster_keeps() -> None:
    live = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "vm", "uid": "u"},
        "status": {"created": True},
    }
    manifest = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "vm"},
        "spec": {"typo": 1},
    }
    odd = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "vm", "annotations": None}}
    given = [live, CLAIM, OTHER, {"kind": 1}, odd, manifest]
    newest = latest([Document(raw, DocumentSource("in", line)) for line, raw in enumerate(given, 1)], "default")
    assert [document.source.line for document in newest.documents] == [2, 3, 4, 6]
    assert newest.documents[-1].raw == {**manifest, "metadata": {"name": "vm", "uid": "u"}, "status": {"created": True}}
    assert [str(replacement.used) for replacement in newest.replaced] == ["in:6", "in:3"]
    untouched = [Document(odd, DocumentSource("in", 1))]
    assert latest(untouched, "default").documents == tuple(untouched)
