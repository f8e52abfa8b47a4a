"""A model of the objects in files: manifests, or a dump of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from virt_dra.api.core_v1 import Namespace, Node
from virt_dra.api.defaults import defaulted
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.feeds.admitted import as_admitted
from virt_dra.model.feeds.stand_ins import labelled, stand_ins
from virt_dra.model.unknown import not_given

_DEFAULTED: Final = (DeviceClass, DeviceTaintRule)


def model_of_files(objects: Iterable[TypedObject], namespace: str = "default") -> ClusterModel:
    """A model in which kinds that files lack count as not given, with VMs as admitted."""
    objects = tuple(objects)
    return as_admitted(ClusterModel(objects, namespace, not_given(objects)))


def placeable_model(objects: Iterable[TypedObject]) -> ClusterModel:
    """The model of files as pods are placed on it."""
    return placeable(model_of_files(objects))


def placeable(model: ClusterModel) -> ClusterModel:
    """A model as pods are placed on it: with VMs as admitted, nodes and namespaces that are only named, usual labels,
    and defaults."""
    model = as_admitted(model)
    return model.changed(_completed(model))


def _completed(model: ClusterModel) -> Iterator[TypedObject]:
    """The objects that differ from the model's, and those that it lacks."""
    for kind in (*_DEFAULTED, Node, Namespace):
        for obj in model.of(kind):
            completed = defaulted(obj) if kind in _DEFAULTED else labelled(obj)
            if completed is not obj and obj.name:
                yield completed
    for made in stand_ins(model.objects, None):
        yield labelled(made) if isinstance(made, Node) else made
