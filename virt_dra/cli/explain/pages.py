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
    folders = (files("virt_dra") / "pages" / folder for folder in _FOLDERS)
    texts = [file for folder in folders for file in folder.iterdir() if file.name.endswith(".md")]
    return {name: file for file in texts if (name := file.name.removesuffix(".md")) != _INDEX}
