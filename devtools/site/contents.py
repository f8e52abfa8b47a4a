"""The pages of the site, in the order of its menu. A page of the repository that is in no section fails the build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class MenuSection:
    """``pages``: names without ``.md``, from the repository's root; one that ends in ``*`` stands for all of a folder,
    in order.

    ``below``: the page under which these are listed, instead of a place of their own in the menu.
    """

    title: str
    pages: tuple[str, ...]
    below: str | None = None


MENU: Final = (
    MenuSection(
        "Start",
        (
            "docs/tutorial",
            "docs/concepts",
            "docs/guides/install",
            "docs/guides/integration-paths",
            "docs/comparison",
            "docs/faq",
        ),
    ),
    MenuSection(
        "Guides",
        (
            "docs/guides/explain",
            "docs/guides/top",
            "docs/guides/profiles",
            "docs/guides/keep",
            "docs/guides/topology",
            "docs/guides/testing",
            "docs/guides/domain-xml",
            "docs/guides/report",
            "docs/guides/run",
            "docs/guides/library",
            "docs/guides/placement",
            "docs/guides/hostdev-options",
            "docs/guides/allocator",
            "docs/guides/simulator",
            "docs/guides/policies",
            "docs/guides/extender",
            "docs/guides/inventory",
            "docs/guides/scripting",
            "docs/guides/scenarios",
            "docs/guides/driver",
            "docs/guides/driver-authors",
            "docs/guides/hook-sidecar",
            "docs/guides/callers",
            "docs/guides/monitoring",
            "docs/guides/ci",
            "examples/README",
        ),
    ),
    MenuSection(
        "Reference",
        (
            "reference/commands",
            "docs/lint/README",
            "docs/reasons/README",
            "docs/runbooks/README",
            "reference/metrics",
            "reference/crds",
            "reference/library",
        ),
    ),
    MenuSection("In operation", ("docs/reliability", "docs/security")),
    MenuSection(
        "How it is made",
        (
            "docs/architecture",
            "docs/decisions/README",
            "docs/spec/allocation",
            "docs/spec/control-loops",
            "docs/spec/kubevirt",
            "docs/spec/cel",
            "docs/spec/scenarios",
            "docs/spec/driver",
            "docs/spec/hardware-lab",
            "docs/spec/keep",
            "docs/spec/without-test",
            "docs/scenarios",
        ),
    ),
    MenuSection(
        "Project",
        (
            "README",
            "CHANGELOG",
            "CONTRIBUTING",
            "RELEASE",
            "SECURITY",
            "devtools/README",
            "devtools/upstream/apiserver/README",
        ),
    ),
    MenuSection("Findings", ("reference/lint", "docs/lint/*"), below="docs/lint/README"),
    MenuSection("Reasons", ("docs/reasons/*",), below="docs/reasons/README"),
    MenuSection("Runbooks", ("docs/runbooks/*",), below="docs/runbooks/README"),
    MenuSection("Decisions", ("docs/decisions/*",), below="docs/decisions/README"),
)
INDEX: Final = "docs/README"
"""Its table is the front page's."""
WITHOUT_SITE: Final = "the reference that `make site` makes of the code, in `out/site`"
"""What the index says for readers of the repository, who have no generated pages; on the site links stand there."""
WITH_SITE: Final = (
    "[commands](../reference/commands.md), [metrics](../reference/metrics.md), [CRDs](../reference/crds.md), "
    "[library](../reference/library.md)"
)
