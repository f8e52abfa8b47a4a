"""The downward API: fields of a pod in variables and volumes, resolved as the kubelet does (pkg/fieldpath). Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from virt_dra.api import names
from virt_dra.api.core_v1 import Container, Pod, Volume
from virt_dra.api.go_text import quoted
from virt_dra.api.wire import Json

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_SUBSCRIPTED = re.compile(r"(.+?)\['(.*)'\]", re.DOTALL)


class UnsupportedField(ValueError):
    """A field that can't be shown; the container doesn't start, the volume isn't mounted. The text is the kubelet's."""


def field_value(pod: Pod, path: str) -> str:
    """The text of a field as volumes show it. One that is missing is "". Raises :class:`UnsupportedField`."""
    maps = {"metadata.annotations": pod.metadata.annotations, "metadata.labels": pod.metadata.labels}
    subscripted = _SUBSCRIPTED.fullmatch(path)
    if subscripted:
        parent, key = subscripted.groups()
        if parent not in maps:
            raise UnsupportedField(f"fieldPath {quoted(parent)} does not support subscript")
        faults = names.label_key(key.lower() if parent == "metadata.annotations" else key)
        if faults:
            raise UnsupportedField(f"invalid key subscript in {path}: {';'.join(faults)}")
        return maps[parent].get(key, "")
    if path in maps:
        return "\n".join(f"{key}={quoted(value)}" for key, value in sorted(maps[path].items()))
    scalars = {"metadata.name": pod.name, "metadata.namespace": pod.namespace, "metadata.uid": pod.metadata.uid}
    if path not in scalars:
        raise UnsupportedField(f"unsupported fieldPath: {path}")
    return scalars[path]


def volume_files(pod: Pod, volume: Volume) -> dict[str, str]:
    """The files of a downwardAPI volume, path below its mount -> content. Raises :class:`UnsupportedField`."""
    files: dict[str, str] = {}
    for item in (volume.downward_api or {}).get("items") or ():
        field = item.get("fieldRef")
        if field is None:
            raise UnsupportedField("resourceFieldRef is not known to this kubelet")
        files[posixpath.normpath(item["path"])] = field_value(pod, field["fieldPath"])
    return files


def environment(pod: Pod, container: Container) -> dict[str, str]:
    """The variables of a container that the pod's spec gives: values with ``$(NAME)`` expanded, and fields, as they are
    now. Those of ConfigMaps, Secrets and resources are left out. Raises :class:`UnsupportedField`."""
    variables: dict[str, str] = {}
    for variable in container.env:
        if variable.value:
            variables[variable.name] = _expanded(variable.value, variables)
        elif variable.value_from is None:
            variables[variable.name] = ""
        elif field := variable.value_from.get("fieldRef"):
            variables[variable.name] = _runtime_value(pod, field)
    return variables


def _runtime_value(pod: Pod, field: Json) -> str:
    """The value of a field in a variable; there are a few fields more than in volumes."""
    account = (pod.spec.model_extra or {}).get("serviceAccountName")
    more = {
        "spec.nodeName": pod.spec.node_name or "",
        "spec.serviceAccountName": account or "",
        "status.podIP": "",
        "status.hostIP": "",
    }
    path = field["fieldPath"]
    return str(more[path]) if path in more else field_value(pod, path)


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """The text with ``$(NAME)`` replaced by its value if that is defined before, and ``$$`` by ``$``."""

    def replaced(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _REFERENCE.sub(replaced, text)
