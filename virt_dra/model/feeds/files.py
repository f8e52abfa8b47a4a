"""A model of the objects in files: manifests, or a dump of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.model.cluster import ClusterModel

_MOST_OFTEN_LACKING: Final = (Node, Pod, ResourceSlice)
"""Kinds that every cluster in use has: without a single object they weren't dumped."""


def model_of_files(objects: Iterable[TypedObject], namespace: str = "default") -> ClusterModel:
    """A model in which kinds that files lack count as not given. ``namespace``: of objects that name none."""
    objects = tuple(objects)
    there = {type(obj) for obj in objects}
    return ClusterModel(objects, namespace, unread=[kind for kind in _MOST_OFTEN_LACKING if kind not in there])
