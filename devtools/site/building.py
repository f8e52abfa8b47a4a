"""The staged pages as HTML, by Sphinx. Every warning is an error: a link or an anchor that leads nowhere, a page that
no menu lists."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Final
from warnings import catch_warnings, simplefilter

from sphinx.application import Sphinx
from sphinx.util.console import nocolor
from sphinx.util.docutils import docutils_namespace, patch_docutils

SETTINGS: Final[dict[str, Any]] = {
    "project": "virt-dra",
    "extensions": ["myst_parser"],
    "suppress_warnings": ["misc.highlighting_failure"],  # colors only; examples hold YAML that is wrong on purpose
    "root_doc": "index",
    "language": "en",
    "smartquotes": False,  # it makes a dash of --
    "myst_heading_anchors": 6,  # as GitHub makes them, where the same pages are read, too
    "myst_links_external_new_tab": False,
    "html_theme": "furo",
    "html_title": "virt-dra",
    "html_static_path": [str(Path(__file__).parent / "static")],
    "html_css_files": ["site.css"],
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_show_copyright": False,
    "html_theme_options": {"navigation_with_keys": False},
    "html_permalinks_icon": "#",
}


_BEFORE_THEME: Final = 400


def _collapse_menu(application: Sphinx, page: str, template: str, context: dict[str, Any], document: object) -> None:
    """Of pages that have others below them, the menu lists those that lead to this page alone. With all, which the
    theme asks for, each page repeats 200 entries, and they are most of a build's work."""
    whole_menu = context["toctree"]
    context["toctree"] = lambda **wanted: whole_menu(**{**wanted, "collapse": True})


class BuildFailed(ValueError):
    """What Sphinx warned of; each warning on a line of its own."""


def build(source: Path, target: Path) -> None:
    """Builds the pages of ``source`` into ``target``, both new or empty. Raises :class:`BuildFailed`."""
    nocolor()
    warnings = io.StringIO()
    with patch_docutils(), docutils_namespace(), catch_warnings():
        simplefilter(
            "ignore", PendingDeprecationWarning
        )  # of what MyST and the theme use of Sphinx; the ranges keep to versions with it
        application = Sphinx(
            source,
            None,
            target,
            target.with_name(f"{target.name}.doctrees"),
            "html",
            SETTINGS,
            status=None,
            warning=warnings,
            freshenv=True,
        )
        application.connect("html-page-context", _collapse_menu, priority=_BEFORE_THEME)
        application.build(force_all=True)
    reported = warnings.getvalue().replace(f"{source}/", "").strip()
    if reported or application.statuscode:
        raise BuildFailed(reported or f"Sphinx ended with {application.statuscode}")
