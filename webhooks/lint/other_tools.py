"""Documents that aren't meant as Kubernetes objects and lie beside manifests in a repository: a Helm chart's, those of
kustomize, of package managers and editors."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from typing import Final

from virt_dra.api.reading.documents import Document
from virt_dra.api.reading.scheme import all_kinds

_GROUPS: Final = frozenset({"kustomize.config.k8s.io"})
"""API groups whose objects only a tool reads."""
_KUSTOMIZATIONS: Final = frozenset({"kustomization.yaml", "kustomization.yml"})
_NAMES: Final = frozenset({*_KUSTOMIZATIONS, "Chart.yaml", "Chart.yml", "package.json", "package-lock.json"})
"""Files of other tools, by whichever way they got into the input: a shell's ``*.yaml`` names them, too."""


def kustomize_patches(documents: Iterable[Document]) -> frozenset[str]:
    """The files that kustomizations among the documents name as patches: parts of objects, by the kustomization's own
    path."""
    return frozenset(
        posixpath.normpath(posixpath.join(posixpath.dirname(document.source.name), path))
        for document in documents
        if isinstance(document.raw, dict)
        if _group(document.raw) in _GROUPS or posixpath.basename(document.source.name) in _KUSTOMIZATIONS
        for path in _patches(document.raw)
    )


def _patches(kustomization: dict[str, object]) -> Iterator[str]:
    for field in ("patches", "patchesJson6902", "patchesStrategicMerge"):
        listed = kustomization.get(field)
        for patch in listed if isinstance(listed, list) else ():
            path = patch.get("path") if isinstance(patch, dict) else patch  # patchesStrategicMerge has the paths alone
            if isinstance(path, str):
                yield path


def _group(raw: object) -> str:
    return str(raw.get("apiVersion")).partition("/")[0] if isinstance(raw, dict) else ""


def is_of_another_tool(document: Document, patches: frozenset[str], *, named: bool) -> bool:
    """True for a document that no API server is meant to get. ``patches``: of kustomize, by path; ``named``: its file
    was named, not found in a folder, so that only well-known files are doubted."""
    raw = document.raw
    if _group(raw) in _GROUPS or posixpath.normpath(document.source.name) in patches:
        return True
    name = document.source.name.rpartition("/")[2]
    values = name.startswith("values") and name.endswith((".yaml", ".yml", ".json"))  # of Helm, also values-prod.yaml
    return (not named or values or name in _NAMES) and not _is_like_an_object(raw)


def is_like_a_manifest(text: bytes) -> bool:
    """True if a text that can't be read may have an object."""
    return b"apiVersion" in text


def _is_like_an_object(raw: object) -> bool:
    """True for what has a version and a kind, except where it lacks the metadata that every object has; and for
    what lacks one of them by mistake."""
    if not isinstance(raw, dict):
        return False
    kind = raw.get("kind")
    if isinstance(kind, str) and kind.removesuffix("List") in {readable.KIND for readable in all_kinds()}:
        return True
    if "metadata" not in raw:
        return "items" in raw and isinstance(kind, str) and kind.endswith("List")
    return "kind" in raw or "apiVersion" in raw
