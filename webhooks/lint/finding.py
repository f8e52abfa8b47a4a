"""What the lint says: findings with a stable id, a severity by configuration, and the field at fault."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from virt_dra.api.wire import Json

if TYPE_CHECKING:
    from virt_dra.api.kubevirt_versions import Gates
    from webhooks.lint.linted import Linted
    from webhooks.lint.manifest import Manifest
    from webhooks.verdict import FieldIssue

Severity = Literal["denial", "warning"]

DENIAL: Final[Severity] = "denial"
WARNING: Final[Severity] = "warning"

PAGES: Final = "docs/lint"
"""Where each id has a page ``<id>.md``."""


@dataclass(frozen=True)
class LintCheck:
    """One kind of finding.

    * ``severity``: what it is where nothing is configured. A denial never comes to life as things stand; a warning may.
    * ``lenient``: at admission it is a warning. Other objects, which may come later, can put it right; or it is KubeVirt that judges, also
      by who asks.
    * ``title``: a sentence for lists of checks.
    * ``find``: what is found in a VM or VMI and all it names. ``judge``: what is found in an object as it is written, of whatever kind; it
      is given the release of KubeVirt where one is named. Most checks have one of both.
    * ``never_denies``: a warning even where all findings are to deny: it says something about us, not about the object.
    * ``last``: only run where no other check of VMs finds a denial: it shows that a VM can't start, the others show why.
    """

    id: str
    severity: Severity
    title: str
    find: Callable[[Linted], Iterator[FieldIssue]] | None = None
    lenient: bool = False
    judge: Callable[[Manifest, Gates | None], Iterator[FieldIssue]] | None = None
    last: bool = False
    never_denies: bool = False

    @property
    def page(self) -> str:
        return f"{PAGES}/{self.id}.md"


@dataclass(frozen=True)
class LintFinding:
    """One fault of one object, mostly of a VM or VMI. Findings are ordered by check, then by field, as the object has them."""

    id: str
    severity: Severity
    field: str
    message: str

    @property
    def page(self) -> str:
        """The page that says more, from the root of this project."""
        return f"{PAGES}/{self.id}.md"

    def __str__(self) -> str:
        """``denial: spec.domain.devices.gpus[0]: what is wrong [id]``."""
        where = f"{self.field}: " if self.field else ""
        return f"{self.severity}: {where}{self.message} [{self.id}]"

    def to_json(self) -> Json:
        return {"id": self.id, "severity": self.severity, "field": self.field, "message": self.message, "page": self.page}


@dataclass(frozen=True)
class LintSettings:
    """Which findings deny, which warn, and which are not wanted; the first that names an id wins, else the check's own severity.

    ``at_admission``: an object that isn't there may be created later, so what other objects can put right only warns; and messages tell
    nothing of other namespaces or of devices that aren't the VM's.

    ``writers``: launcher pods get what they need from virt-dra's pod webhook, by which these drivers write metadata files; None where
    nothing is known of such a webhook. What it puts right is no finding.

    What is left out is not judged, so that nobody's object takes long; None is without limit:
    ``max_entries``: of claims, and of devices that use them. ``max_options``: requests and alternatives of all claims together; one claim
    has at most 256. ``max_devices``: that a selector is tried on. ``max_work``: on selectors
    together, in microseconds as estimated from their length and loops, not measured: equal inputs get equal answers.
    ``max_work_in_all``: for all VMs of an input together.
    """

    ignore: Collection[str] = frozenset()
    deny: Collection[str] = frozenset()
    warn: Collection[str] = frozenset()
    at_admission: bool = False
    writers: frozenset[str] | None = None
    max_entries: int | None = None
    max_options: int | None = None
    max_devices: int | None = None
    max_work: int | None = None
    max_work_in_all: int | None = None

    @classmethod
    def for_command(
        cls, deny: Collection[str] = frozenset(), warn: Collection[str] = frozenset(), ignore: Collection[str] = frozenset()
    ) -> LintSettings:
        """As somebody asks who waits for the answer: whoever wrote the selectors, it comes within minutes. 10 s of work are enough for a
        thousand times as many devices as a selector usually needs them for."""
        return cls(ignore, deny, warn, max_work=10_000_000, max_work_in_all=60_000_000)

    @classmethod
    def for_admission(
        cls, deny: Collection[str] = frozenset(), warn: Collection[str] = frozenset(), ignore: Collection[str] = frozenset()
    ) -> LintSettings:
        """As the webhook asks: what may come later warns unless ``deny`` names it, and no review takes long."""
        return cls(ignore, deny, warn, at_admission=True, max_entries=128, max_options=256, max_devices=2000, max_work=200_000)

    def severity(self, check: LintCheck) -> Severity | None:
        """None where the check is ignored."""
        if check.id in self.ignore:
            return None
        if check.id in self.deny and not check.never_denies:
            return DENIAL
        if check.id in self.warn or (self.at_admission and check.lenient):
            return WARNING
        return check.severity
