"""An object that names no namespace is in the one that is asked for, if its kind has namespaces, known here or not."""

from __future__ import annotations

import pytest

from virt_dra.api.reading.documents import DocumentSource
from virt_dra.api.reading.namespaces import in_namespace
from virt_dra.api.reading.scheme import read_object
from virt_dra.model.cluster import ClusterModel
from webhooks.lint.manifest import Manifest


@pytest.mark.parametrize(
    ("api_version", "kind", "key"),
    [
        ("resource.k8s.io/v1", "ResourceClaim", "team/a"),
        ("resource.k8s.io/v1", "ResourceSlice", "a"),
        ("v1", "ConfigMap", "team/a"),
        ("storage.k8s.io/v1", "StorageClass", "a"),
        ("nvidia.com/v1", "ClusterPolicy", "a"),
        ("nvidia.com/v1", "NVIDIADriver", "team/a"),
        ("virt-dra.io/v1alpha1", "VirtDraNodePolicy", "a"),
    ],
)
def test_an_object_without_a_namespace_gets_one_where_its_kind_has_some(api_version: str, kind: str, key: str) -> None:
    obj = read_object({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}})
    manifest = Manifest(obj.to_wire(), DocumentSource("a.yaml"), default_namespace="team")
    assert (
        in_namespace(obj, "team").key,
        ClusterModel([obj], "team").objects[0].key,
        "/".join(filter(None, manifest.identity[1:])),
    ) == (key, key, key)


def test_an_object_keeps_its_namespace() -> None:
    obj = read_object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "own"}})
    assert in_namespace(obj, "team") is obj
