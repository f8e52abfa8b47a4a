"""Renders ``manifests/`` like kustomize, for the fields that those files use: resources, components, ConfigMaps made of
files, labels, images, JSON patches and ``$patch: delete``.

Every other field of a kustomization is an error, so that no file is applied in part. A test compares the result with
``kubectl kustomize``. Objects are in the order of reading; :mod:`virt_dra.installation.plan` sorts them. Why not
kustomize itself: decision 0014.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from virt_dra.api.reading.documents import DocumentError, read_documents
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.patches import PatchError, patched

KUSTOMIZATION: Final = "kustomization.yaml"
_KNOWN: Final = frozenset({
    "apiVersion", "kind", "resources", "components", "configMapGenerator", "labels", "images", "patches",
})  # fmt: skip

Read = Callable[[str], bytes | None]
"""The content of a file, by its path from the root of the manifests; None where there is none."""


class ManifestError(ValueError):
    """A kustomization that can't be rendered. The text begins with the file's path."""


@dataclass(frozen=True)
class _Kustomization:
    path: str
    raw: Json

    def list(self, key: str) -> Sequence[Json]:
        value = self.raw.get(key) or []
        if not isinstance(value, list):
            raise ManifestError(f"{self.path}: {key} must be a list")
        return value


def build(read: Read, folder: str, components: Iterable[str] = ()) -> tuple[Json, ...]:
    """The objects of a folder with a kustomization, in the order in which they are read.

    ``components`` are folders added as if the kustomization named them. Raises :class:`ManifestError`.
    """
    return tuple(
        _built(read, posixpath.normpath(folder), [], (), [posixpath.normpath(component) for component in components])
    )


def _built(
    read: Read, folder: str, before: Sequence[Json], within: tuple[str, ...], more: Sequence[str] = ()
) -> list[Json]:
    """The objects of a kustomization. ``before``: the objects that a component extends and changes; empty for a
    kustomization. ``more``: further components."""
    if folder in within:
        raise ManifestError(f"{folder}/{KUSTOMIZATION}: includes itself")
    here = _kustomization(read, folder)
    objects = list(before)
    for name in here.list("resources"):
        path = posixpath.normpath(posixpath.join(folder, str(name)))
        content = read(path)
        objects += _objects(content, path) if content is not None else _built(read, path, [], (*within, folder))
    objects += [_config_map(read, folder, entry, here.path) for entry in here.list("configMapGenerator")]
    named = [posixpath.normpath(posixpath.join(folder, str(name))) for name in here.list("components")]
    for component in (*named, *more):
        objects = _built(read, component, objects, (*within, folder))
    for patch in here.list("patches"):
        objects = _patched(objects, patch, here.path)
    for entry in here.list("labels"):
        objects = [_labelled(obj, entry, here.path) for obj in objects]
    images = {str(image["name"]): image for image in here.list("images")}
    objects = [_with_images(obj, images) for obj in objects]
    _refuse_doubles(objects, here.path)
    return objects


def _kustomization(read: Read, folder: str) -> _Kustomization:
    path = posixpath.join(folder, KUSTOMIZATION)
    content = read(path)
    if content is None:
        raise ManifestError(f"{path}: no such file")
    (raw,) = _objects(content, path) or [{}]
    unknown = sorted(set(raw) - _KNOWN)
    if unknown:
        raise ManifestError(f"{path}: not supported: {', '.join(unknown)}; use: {', '.join(sorted(_KNOWN))}")
    return _Kustomization(path, raw)


def _objects(content: bytes, path: str) -> list[Json]:
    try:
        documents = read_documents(content, path)
    except DocumentError as error:
        raise ManifestError(str(error)) from None
    objects = []
    for document in documents:
        if not isinstance(document.raw, dict):
            raise ManifestError(f"{document.source}: must be an object")
        objects.append(document.raw)
    return objects


def _config_map(read: Read, folder: str, entry: Json, path: str) -> Json:
    """The ConfigMap of a generator: whole files, each under its own name. Its name has no hash of them, so that an
    upgrade changes it in place."""
    options = entry.get("options") or {}
    if set(entry) != {"name", "namespace", "files", "options"} or set(options) - {"disableNameSuffixHash", "labels"}:
        raise ManifestError(f"{path}: configMapGenerator: use name, namespace, files, and labels in options")
    if options.get("disableNameSuffixHash") is not True:
        raise ManifestError(f"{path}: configMapGenerator: only with disableNameSuffixHash: true")
    data = {}
    for name in entry["files"]:
        content = read(posixpath.join(folder, name))
        if content is None:
            raise ManifestError(f"{path}: configMapGenerator: {name}: no such file")
        data[posixpath.basename(name)] = content.decode()
    metadata = {"name": entry["name"], "namespace": entry["namespace"], "labels": options.get("labels", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _patched(objects: Iterable[Json], patch: Json, path: str) -> list[Json]:
    """The objects with one patch applied to those of its target (kind and name, no regular expressions), or without
    them."""
    target, text = patch.get("target"), patch.get("patch")
    unknown = sorted((set(patch) - {"target", "patch"}) | (set(target or {}) - {"kind", "name"}))
    if unknown or not isinstance(target, dict) or not isinstance(text, str):
        wrong = ", ".join(unknown) or "one is missing"
        raise ManifestError(f"{path}: a patch has a target (kind, name) and an inline patch; {wrong}")
    try:
        (document,) = read_documents(text.encode(), path)
    except (DocumentError, ValueError) as error:
        raise ManifestError(f"{path}: patches: {error}") from None
    operations = document.raw if isinstance(document.raw, list) else []
    removes = isinstance(document.raw, dict) and document.raw.get("$patch") == "delete"
    if not removes and not operations:
        supported = "only JSON patches (a list of operations) and $patch: delete are supported"
        raise ManifestError(f"{path}: patches: {supported}")
    changed = []
    for obj in objects:
        own = {"kind": obj.get("kind"), "name": obj["metadata"].get("name")}
        meant = all(own[key] == wanted for key, wanted in target.items())
        if meant and removes:
            continue
        try:
            changed.append(patched(obj, operations) if meant else obj)
        except PatchError as error:
            raise ManifestError(f"{path}: patches: {target}: {error}") from None
    return changed


def _labelled(obj: Json, entry: Mapping[str, object], path: str) -> Json:
    pairs = entry.get("pairs")
    if set(entry) - {"pairs"} or not isinstance(pairs, dict):
        raise ManifestError(f"{path}: labels: only pairs are supported")
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **pairs}}}


def _with_images(obj: Json, images: Mapping[str, Json]) -> Json:
    """The object with these images. ``images``: as kustomize's, by name without tag: ``newName``, ``newTag``,
    ``digest``."""
    if obj.get("kind") != "Deployment" or not images:
        return obj
    return with_containers(obj, lambda container: {**container, "image": _image(container["image"], images)})


def with_containers(deployment: Json, changed: Callable[[Json], Json]) -> Json:
    """The Deployment with each of its containers changed."""
    spec = deployment["spec"]
    template = spec["template"]
    lists = {
        key: [changed(container) for container in template["spec"][key]]
        for key in ("initContainers", "containers")
        if key in template["spec"]
    }
    return {**deployment, "spec": {**spec, "template": {**template, "spec": {**template["spec"], **lists}}}}


def _image(image: str, images: Mapping[str, Json]) -> str:
    name, tag = split_image(image)
    change = images.get(name)
    if change is None:
        return image
    suffix = f"@{change['digest']}" if change.get("digest") else f":{change['newTag']}" if change.get("newTag") else tag
    return f"{change.get('newName', name)}{suffix}"


def split_image(image: str) -> tuple[str, str]:
    """``registry:5000/a/b:1`` -> (``registry:5000/a/b``, ``:1``); a digest is part of the second."""
    name, at, digest = image.partition("@")
    head, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    return f"{head}{slash}{last}", f"{colon}{tag}{at}{digest}"


def _refuse_doubles(objects: Iterable[Json], path: str) -> None:
    seen = set()
    for obj in objects:
        kind, metadata = obj["kind"], obj["metadata"]
        key = (obj["apiVersion"].rpartition("/")[0], kind, metadata.get("namespace", ""), metadata["name"])
        if key in seen:
            raise ManifestError(f"{path}: {kind} {metadata['name']} occurs twice")
        seen.add(key)
