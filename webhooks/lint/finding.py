"""Findings with a stable id, a severity and the field at fault; the checks that find them; and the settings of a
lint."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING, Final, Literal, TypedDict

from webhooks.lint.fixes.repairs import Repair
from webhooks.verdict import FieldIssue

if TYPE_CHECKING:
    from virt_dra.api.kubevirt_versions import KubeVirtVersion
    from virt_dra.api.meta import TypedObject
    from webhooks.lint.inputs import LintInputs
    from webhooks.lint.linted import Linted
    from webhooks.lint.manifest import Manifest

Severity = Literal["denial", "warning"]

DENIAL: Final[Severity] = "denial"
WARNING: Final[Severity] = "warning"

LintStage = Literal["written", "start", "running"]

WRITTEN: Final[LintStage] = "written"
START: Final[LintStage] = "start"
RUNNING: Final[LintStage] = "running"

PAGES: Final = "docs/lint"
"""The folder with a page ``<id>.md`` for each id."""


@dataclass(frozen=True)
class FaultPlace:
    """A field of another object than the one that is checked: where the fault is that makes a VM's reference fail."""

    kind: str
    namespace: str
    name: str
    field: str

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.kind, self.namespace, self.name


@dataclass(frozen=True)
class LintIssue(FieldIssue):
    """An issue whose cure is known, or whose fault is in another object or a part of the field. ``repair``: None if it
    isn't known; ``at``: None if the fault is in the field itself; ``part``: the text in the field that is wrong, "" for
    all of it."""

    repair: Repair | None = dataclass_field(default=None, compare=False)
    at: FaultPlace | None = dataclass_field(default=None, compare=False)
    part: str = dataclass_field(default="", compare=False)


@dataclass(frozen=True)
class LintCheck:
    """One kind of finding.

    * ``severity``: the default one. With a denial the VM can't start as things are; with a warning it may.
    * ``lenient``: only a warning at admission, because an object created later can remedy it, or because KubeVirt
      itself decides, by user.
    * ``title``: a sentence for lists of checks.
    * ``find``: yields the issues of a VM or VMI and the objects that it names. ``find_as_written``: yields those of an
      object of any kind as it is written; its second argument is KubeVirt's release and gates, if known.
      ``find_beside``: yields those of an object that isn't a VM, because of others of the input. Most checks have one
      of the three.
    * ``never_denies``: a warning even if all findings are to deny, because the object isn't at fault.
    * ``opt_in``: only reported where it is named, by --warn, --deny or --fix.
    * ``last``: only run if no other check of VMs has a denial, because it shows that a VM can't start, and the others
      show why.
    * ``matters``: when the fault has its effect: as the object is written, at each start of the VM, or, by what the VM
      does or holds, also while it runs.
    """

    id: str
    severity: Severity
    title: str
    find: Callable[[Linted], Iterator[FieldIssue]] | None = None
    lenient: bool = False
    find_as_written: Callable[[Manifest, KubeVirtVersion | None], Iterator[FieldIssue]] | None = None
    find_beside: Callable[[TypedObject, LintInputs], Iterator[FieldIssue]] | None = None
    last: bool = False
    never_denies: bool = False
    opt_in: bool = False
    matters: LintStage = START

    @property
    def page(self) -> str:
        return f"{PAGES}/{self.id}.md"


class LintFindingJson(TypedDict):
    """A finding of the lint."""

    id: str
    severity: Severity
    field: str
    """The field at fault."""
    message: str
    page: str
    """The path of its page in this project."""


@dataclass(frozen=True)
class LintFinding:
    """One fault of one object, usually of a VM or VMI. Findings are ordered by check, then in the order of the object's
    fields.

    ``repair``: how it may be corrected mechanically, perhaps in another object; None if that isn't known. ``at``: where
    the fault is, if that is in another object. ``part``: the text in the field that is wrong, "" for all of it.
    """

    id: str
    severity: Severity
    field: str
    message: str
    repair: Repair | None = dataclass_field(default=None, compare=False, repr=False)
    at: FaultPlace | None = dataclass_field(default=None, compare=False, repr=False)
    part: str = dataclass_field(default="", compare=False, repr=False)

    @property
    def page(self) -> str:
        """The path of its page in this project."""
        return f"{PAGES}/{self.id}.md"

    def __str__(self) -> str:
        """``denial: spec.domain.devices.gpus[0]: what is wrong [id]``."""
        where = f"{self.field}: " if self.field else ""
        return f"{self.severity}: {where}{self.message} [{self.id}]"

    def to_json(self) -> LintFindingJson:
        return LintFindingJson(
            id=self.id, severity=self.severity, field=self.field, message=self.message, page=self.page
        )


COMMAND_WORK: Final = 10_000_000
"""``max_work`` of the command line: 10 s suffice for a thousand times the usual devices."""
COMMAND_WORK_IN_ALL: Final = 60_000_000
"""``max_work_in_all`` of the command line."""


@dataclass(frozen=True)
class LintSettings:
    """The ids of findings that are ignored, deny, or warn; the first of these that has an id wins, else the check's own
    severity.

    ``at_admission``: lenient checks only warn, because a missing object may be created later; and messages reveal
    nothing about other namespaces and other devices than the VM's.

    ``pod_webhook``: virt-dra's webhook for launcher pods runs. Faults that it remedies are no findings.

    Limits, so that a lint takes bounded time; what exceeds one isn't checked. None: no limit. ``max_entries``: claims,
    and devices that use them. ``max_options``: requests and alternatives of all claims; one claim has at most 256.
    ``max_devices``: on which a selector is evaluated. ``max_work``: for all selectors, in microseconds as estimated
    from their length and loops, not measured, so that equal inputs get equal findings. ``max_work_in_all``: for all VMs
    of an input.
    """

    ignore: Collection[str] = frozenset()
    deny: Collection[str] = frozenset()
    warn: Collection[str] = frozenset()
    at_admission: bool = False
    pod_webhook: bool = False
    max_entries: int | None = None
    max_options: int | None = None
    max_devices: int | None = None
    max_work: int | None = None
    max_work_in_all: int | None = None

    @classmethod
    def for_command(
        cls, deny: Collection[str] = (), warn: Collection[str] = (), ignore: Collection[str] = ()
    ) -> LintSettings:
        """The settings of the command line, which may take minutes."""
        return cls(ignore, deny, warn, max_work=COMMAND_WORK, max_work_in_all=COMMAND_WORK_IN_ALL)

    @classmethod
    def for_admission(
        cls, deny: Collection[str] = (), warn: Collection[str] = (), ignore: Collection[str] = ()
    ) -> LintSettings:
        """The settings of the webhook: lenient checks warn unless ``deny`` has them, and every review is short."""
        return cls(
            ignore, deny, warn, at_admission=True, max_entries=128, max_options=256, max_devices=2000, max_work=200_000
        )

    def severity(self, check: LintCheck) -> Severity | None:
        """The severity of a check's findings; None if they are ignored."""
        if check.id in self.ignore or (check.opt_in and check.id not in (*self.deny, *self.warn)):
            return None
        if check.id in self.deny and not check.never_denies:
            return DENIAL
        if check.id in self.warn or (self.at_admission and check.lenient):
            return WARNING
        return check.severity
