"""The reference: pages of Markdown made of the code itself, so that none can lack or invent something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from devtools.site.reference.commands import commands_page
from devtools.site.reference.crds import crds_page
from devtools.site.reference.findings import findings_page
from devtools.site.reference.library import library_page
from devtools.site.reference.metrics import metrics_page

PAGES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {
        "reference/commands": commands_page,
        "reference/lint": findings_page,
        "reference/metrics": metrics_page,
        "reference/crds": crds_page,
        "reference/library": library_page,
    }
)
"""Each page's name -> its Markdown."""
