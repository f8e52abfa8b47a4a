"""Parts of objects that are kept once, and objects that are made smaller: nothing else about them may change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cluster.kube import interning as sharing
from virt_dra.cluster.kube.interning import SharedParts
from virt_dra.cluster.watching.transforms import differ_in_version_only, keeping, known_fields_only, leaving_out

NAMES = st.sampled_from(["a", "b", "c"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | NAMES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
)
AMOUNTS = st.sampled_from(["1", "1000m", "1Gi", "1024Mi", "2"])
ENV = st.fixed_dictionaries(
    {"name": NAMES}, optional={"value": NAMES, "valueFrom": st.dictionaries(NAMES, JSON, max_size=2), "novel": JSON}
)
CONTAINERS = st.fixed_dictionaries(
    {"name": NAMES},
    optional={
        "env": st.lists(ENV, max_size=3),
        "command": st.lists(NAMES, max_size=2),
        "resources": st.fixed_dictionaries(
            {}, optional={"limits": st.dictionaries(NAMES, AMOUNTS, max_size=2), "claims": st.just([])}
        ),
        "securityContext": st.dictionaries(NAMES, JSON, max_size=2),
        "imagePullPolicy": NAMES,
    },
)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": NAMES}, optional={"labels": st.dictionaries(NAMES, NAMES), "annotations": st.just({})}
        )
    },
    optional={
        "spec": st.fixed_dictionaries(
            {}, optional={"containers": st.lists(CONTAINERS, max_size=3), "nodeSelector": st.just({}), "novel": JSON}
        ),
        "status": st.fixed_dictionaries({}, optional={"phase": NAMES, "novel": JSON}),
    },
)


def given_everywhere(obj: Any) -> Any:
    """The fields that were given, at every depth: what ``given()`` answers."""
    if hasattr(obj, "model_fields_set"):
        inner = {name: given_everywhere(value) for name, value in obj.__dict__.items()}
        return type(obj), frozenset(obj.model_fields_set), inner
    if isinstance(obj, tuple):
        return [given_everywhere(entry) for entry in obj]
    return {key: given_everywhere(entry) for key, entry in obj.items()} if isinstance(obj, dict) else None


@given(st.lists(PODS, max_size=4))
def test_objects_are_what_they_were(objects: list[dict[str, Any]]) -> None:
    parts = SharedParts()
    plain = [Pod.from_wire(raw) for raw in objects]
    shared = [parts.shared(Pod.from_wire(raw)) for raw in objects]
    for mine, other in zip(shared, plain, strict=True):
        assert mine == other
        assert mine.to_wire() == other.to_wire()
        assert given_everywhere(mine) == given_everywhere(other)
    for mine in shared:  # who changes a copy changes nobody else's
        changed = mine.with_(metadata=mine.metadata.with_(labels={"x": "y"}), novel=1)
        assert changed.without("novel", "metadata").to_wire().keys() <= mine.to_wire().keys()
    assert [obj.to_wire() for obj in shared] == [other.to_wire() for other in plain]


def test_equal_parts_are_one_object() -> None:
    parts = SharedParts()
    containers = [{"name": "c", "env": [{"name": "A", "value": "1"}], "resources": {"limits": {"cpu": "1"}}}]
    first, other = (
        parts.shared(Pod.from_wire({"metadata": {"name": name}, "spec": {"containers": containers, "nodeName": name}}))
        for name in "ab"
    )
    assert first.spec is not other.spec
    assert first.spec.containers is other.spec.containers
    assert first.model_extra is other.model_extra


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "LIMIT", 3)
    parts = SharedParts()
    for number in range(20):
        claim = {"metadata": {"name": f"c{number}"}, "spec": {"devices": {"requests": [{"name": f"r{number}"}]}}}
        assert parts.shared(ResourceClaim.from_wire(claim)).to_wire()["spec"] == claim["spec"]


@given(PODS)
def test_known_fields_are_all_that_is_left(raw: dict[str, Any]) -> None:
    whole = Pod.from_wire(raw)
    before = whole.to_wire()
    smaller = known_fields_only(whole)
    assert whole.to_wire() == before
    assert "novel" not in (smaller.spec.model_extra or {})
    assert "novel" not in (smaller.status.model_extra or {})
    for container, kept in zip(whole.spec.containers, smaller.spec.containers, strict=True):
        assert kept.model_extra == {}
        assert kept.to_wire() == {
            key: value for key, value in container.without("env").to_wire().items() if key != "imagePullPolicy"
        } | ({"env": [entry.without("novel").to_wire() for entry in container.env]} if container.given("env") else {})
    assert known_fields_only(smaller) is smaller


def test_fields_are_left_out_by_name() -> None:
    raw = {
        "metadata": {"name": "p", "annotations": {"a": "b"}, "labels": {"x": "y"}},
        "spec": {
            "containers": [{"name": "c", "env": [{"name": "A"}], "command": ["x"]}, {"name": "d"}],
            "hostNetwork": True,
        },
    }
    whole = Pod.from_wire(raw)
    smaller = leaving_out("metadata.annotations", "spec.containers.env", "spec.absent.deeper")(whole)
    assert smaller.to_wire() == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"x": "y"}},
        "spec": {"containers": [{"name": "c", "command": ["x"]}, {"name": "d"}]},
    }
    assert whole.to_wire() == {"apiVersion": "v1", "kind": "Pod", **raw}


def test_only_fields_that_are_named_and_what_identifies_an_object_are_kept() -> None:
    identity = {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "1"}
    resources = {"limits": {"cpu": "1"}, "novel": 1}
    containers = [{"name": "c", "image": "i", "resources": resources}, {"name": "d"}]
    raw = {
        "metadata": {**identity, "labels": {"x": "y"}, "novel": 1},
        "spec": {"containers": containers, "nodeName": "a", "hostNetwork": True},
        "status": {"phase": "Running"},
    }
    whole = Pod.from_wire(raw)
    smaller = keeping("spec.node_name", "spec.containers.resources", "spec.overhead.cpu")(whole)
    spec = {"containers": [{"resources": resources}, {}], "nodeName": "a"}
    assert smaller.to_wire() == {"apiVersion": "v1", "kind": "Pod", "metadata": identity, "spec": spec}
    assert whole.to_wire() == {"apiVersion": "v1", "kind": "Pod", **raw}


@given(PODS, PODS)
def test_versions_with_equal_content_differ_in_their_version_only(one: dict[str, Any], other: dict[str, Any]) -> None:
    def version(raw: dict[str, Any], number: str) -> Pod:
        return Pod.from_wire({**raw, "metadata": {**raw["metadata"], "resourceVersion": number}})

    assert differ_in_version_only(version(one, "1"), version(one, "2"))
    assert differ_in_version_only(version(one, "1"), version(other, "2")) == (
        Pod.from_wire(one) == Pod.from_wire(other)
    )
