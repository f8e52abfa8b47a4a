"""What files imply of a cluster that they give in part."""

from __future__ import annotations

from tests.model.test_cluster import DEVICES, node, pod, slice_of
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.kubevirt_v1 import KubeVirt
from virt_dra.api.meta import TypedObject
from virt_dra.api.policies.storage_v1 import PersistentVolume, PersistentVolumeClaim, StorageClass
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.model.feeds.files import model_of_files, placeable_model


def test_kinds_that_nearly_every_cluster_has_are_not_given_where_files_lack_them() -> None:
    def unread(*objects: TypedObject) -> set[type[TypedObject]]:
        return set(model_of_files(objects).unread)

    volumes = {PersistentVolumeClaim, PersistentVolume, StorageClass}
    assert unread() == {Node, Pod, ResourceSlice, KubeVirt} | volumes
    assert unread(pod("a", None, "Running", None), slice_of("n", 1, ())) == {Node, KubeVirt} | volumes
    assert model_of_files([]).knows_all(ResourceClaim)


def test_without_nodes_there_are_those_that_slices_name_and_else_one() -> None:
    assert set(placeable_model([slice_of("node-7", 1, DEVICES)]).nodes) == {"node-7"}
    assert set(placeable_model([]).nodes) == {"node-1"}
    assert set(placeable_model([node("n", {}), slice_of("node-7", 1, DEVICES)]).nodes) == {"n"}
    assert not placeable_model([]).knows(Node), "they stand in for what isn't known"


def test_nodes_have_the_labels_that_every_node_has_and_keep_their_own() -> None:
    own = Node.from_wire({"metadata": {"name": "n", "labels": {"kubernetes.io/arch": "arm64"}}})
    model = placeable_model([own])
    assert dict(model.nodes["n"].metadata.labels) == {
        "kubevirt.io/schedulable": "true",
        "cpumanager": "true",
        "kubernetes.io/arch": "arm64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": "n",
    }
