"""The pages of findings (docs/lint), reasons (docs/reasons) and alerts (docs/runbooks), which are in the wheel."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

_FOLDERS: Final = ("findings", "reasons", "runbooks")
_INDEX: Final = "README"


def page_names() -> list[str]:
    """The names of all pages, sorted."""
    return sorted(_pages())


def page(name: str) -> str | None:
    """The page of a finding, a reason or an alert, in Markdown; None if there is none. Upper and lower case don't
    matter."""
    page = {title.lower(): path for title, path in _pages().items()}.get(name.lower())
    return page.read_text(encoding="utf-8") if page is not None else None


def _pages() -> dict[str, Traversable]:
    pages = files("virt_dra") / "pages"
    paths = {}
    for folder in _FOLDERS:
        for file in (pages / folder).iterdir():
            name = file.name.removesuffix(".md")
            if name not in (file.name, _INDEX):
                paths[name] = file
    return paths
