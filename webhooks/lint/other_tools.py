"""Documents that aren't meant as Kubernetes objects and lie beside manifests in a repository: a Helm chart's, those of
kustomize, of package managers and editors."""

from __future__ import annotations

from typing import Final

from virt_dra.api.reading.documents import Document
from virt_dra.api.reading.scheme import all_kinds

_GROUPS: Final = frozenset({"kustomize.config.k8s.io"})
"""API groups whose objects only a tool reads."""
_NAMES: Final = frozenset({
    "kustomization.yaml", "kustomization.yml", "Chart.yaml", "Chart.yml", "package.json", "package-lock.json"
})  # fmt: skip
"""Files of other tools, by whichever way they got into the input: a shell's ``*.yaml`` names them, too."""


def is_of_another_tool(document: Document, *, named: bool) -> bool:
    """True for a document that no API server is meant to get. ``named``: its file was named, not found in a folder, so
    that only well-known files are doubted."""
    raw = document.raw
    if isinstance(raw, dict) and str(raw.get("apiVersion")).partition("/")[0] in _GROUPS:
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
