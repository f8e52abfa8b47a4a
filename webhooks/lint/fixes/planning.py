"""Plans fixes: edits texts, reads and lints the result, and keeps the fixes that remove their finding and cause no
other one.

A fix is verified twice before anyone sees it. The edited text is read again: it must mean what the changed objects
mean, and for all others what it meant before. Then all objects are linted again. Where several fixes together fail,
halves of them are tried, so that a bad one doesn't prevent the others. What a fix brings to light (an object that is
now accepted is checked further) is fixed in another round.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from virt_dra.api.editing.changes import CannotChange, ValueChange, changed
from virt_dra.api.editing.member_edits import WrittenObjects
from virt_dra.api.editing.text_edits import OverlappingEdits, TextEdit
from virt_dra.api.editing.text_nodes import NodePlace
from virt_dra.api.reading.documents import Document, DocumentError, DocumentSource, read_documents
from webhooks.lint.documents import LintResult, ObjectFindings
from webhooks.lint.finding import DENIAL, LintFinding
from webhooks.lint.fixes.manifest_text import ManifestText
from webhooks.lint.fixes.repairs import OwnRepair, Repair, VersionRepair
from webhooks.lint.fixes.targets import ChangesOfObjects, RepairTargets
from webhooks.lint.registry import BY_ID

Judge = Callable[[Sequence[Document]], LintResult]
"""Lints documents as the first time."""

ROUNDS = 8
ATTEMPTS = 64
"""The most times that texts are edited, read and linted for one plan."""
MAX_EDITED = 16 * 1024 * 1024
"""Characters of a text that is edited; a node of its objects takes half a kilobyte."""

FindingKey = tuple[DocumentSource, str, str]
"""The object's place, without its line, which edits may move; the id; the field."""


@dataclass(frozen=True)
class PlannedFix:
    """A fix that was verified: the finding that it removes, and the edits of texts that do that alone."""

    source: DocumentSource
    finding: LintFinding
    edits: tuple[tuple[ManifestText, Sequence[TextEdit]], ...] = field(repr=False)

    @property
    def diff(self) -> str:
        """What the fix alone changes; made when it is asked for."""
        return "".join(text.diff_of(edits) for text, edits in self.edits)


@dataclass(frozen=True)
class DroppedFix:
    """A fix that isn't made, and why, as the end of a sentence."""

    source: DocumentSource
    title: str
    finding: LintFinding
    reason: str

    def __str__(self) -> str:
        place = f"{self.source}: {self.title}: {self.finding.field}"
        return f"{place}: not fixed, because {self.reason} [{self.finding.id}]"


@dataclass(frozen=True)
class FixPlan:
    """What can be fixed. ``fixes``: of the first round, for the findings of the input; ``dropped``: of all rounds.
    ``waiting``: findings of the input whose object gets another fix first. ``removed``: the number of the input's
    findings that are gone in the end. ``texts``: those that change. ``documents``, ``result``: after all changes."""

    fixes: tuple[PlannedFix, ...]
    dropped: tuple[DroppedFix, ...]
    waiting: frozenset[tuple[DocumentSource, LintFinding]]
    removed: int
    texts: tuple[ManifestText, ...]
    documents: tuple[Document, ...]
    result: LintResult


def plan_fixes(documents: Sequence[Document], texts: Mapping[str, bytes], result: LintResult, judge: Judge) -> FixPlan:
    """The fixes of the findings on documents. ``texts``: those that may be changed, by the names of their sources."""
    state = _State(tuple(documents), {name: ManifestText(name, raw) for name, raw in texts.items()}, result)
    return _Planner(judge).plan(state)


@dataclass(frozen=True)
class _State:
    documents: tuple[Document, ...]
    texts: Mapping[str, ManifestText]
    result: LintResult


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A repair with the findings that it is for."""

    changes: ChangesOfObjects
    findings: list[tuple[ObjectFindings, LintFinding]]
    whole: bool
    """It changes an object's shape: other changes of the object wait."""
    edits: dict[str, list[TextEdit]] = field(default_factory=dict)


class _Postponed(Exception):
    """Raised where fixes are right, but not together in one round."""


@dataclass
class _Planner:
    judge: Judge

    def __post_init__(self) -> None:
        self._attempts = ATTEMPTS
        self._objects: Mapping[str, WrittenObjects | str] = {}
        """The objects of this round's texts, or why a text can't be edited."""
        self._dropped: dict[tuple[FindingKey, str], DroppedFix] = {}

    def plan(self, state: _State) -> FixPlan:
        fixes: tuple[PlannedFix, ...] = ()
        before, waiting_at_first = state.result, frozenset[tuple[DocumentSource, LintFinding]]()
        for number in range(ROUNDS):
            candidates, waiting = self._candidates(state)
            accepted: list[_Candidate] = []
            following = self._accept(state, state, candidates, accepted)
            if number == 0:
                fixes = tuple(_planned(state, accepted))
                waiting_at_first = frozenset(
                    (obj.source, finding) for candidate in waiting for obj, finding in candidate.findings
                )
            state = following
            if not accepted and not (waiting and candidates):
                break
        left = {(_key(obj, finding), finding.message) for obj, finding in _findings(state.result)}
        dropped = tuple(fix for key, fix in self._dropped.items() if key in left)
        changed_texts = tuple(text for text in state.texts.values() if text.edits)
        removed = (_counted(before) - _counted(state.result)).total()
        return FixPlan(fixes, dropped, waiting_at_first, removed, changed_texts, state.documents, state.result)

    # --- candidates ---

    def _candidates(self, state: _State) -> tuple[list[_Candidate], list[_Candidate]]:
        """The fixes to try, and those that wait for them."""
        manifests = [manifest for manifest, _ in state.result.manifests]
        targets = RepairTargets(manifests, state.texts.keys())
        candidates: dict[tuple[Repair, DocumentSource | None], _Candidate] = {}
        for obj, finding in _findings(state.result):
            repair = finding.repair
            if repair is None or (_key(obj, finding), finding.message) in self._dropped:
                continue
            own = isinstance(repair, VersionRepair | OwnRepair)
            key = (repair, obj.source if own else None)
            if key in candidates:
                candidates[key].findings.append((obj, finding))
                continue
            try:
                candidates[key] = _Candidate(targets.changes_of(repair, obj.source), [(obj, finding)], own)
            except CannotChange as error:
                self._drop([(obj, finding)], str(error))
        first = {source for candidate in candidates.values() if candidate.whole for source in candidate.changes}
        now: list[_Candidate] = []
        waiting: list[_Candidate] = []
        for candidate in candidates.values():
            waits = not candidate.whole and first & candidate.changes.keys()
            (waiting if waits else now).append(candidate)
        self._objects = _written(state, now)
        return [candidate for candidate in now if self._is_editable(candidate)], waiting

    def _is_editable(self, candidate: _Candidate) -> bool:
        """True if the edits of a candidate alone can be made, which are then noted."""
        try:
            candidate.edits.update(self._edits(candidate.changes))
        except CannotChange as error:
            self._drop(candidate.findings, str(error))
            return False
        return True

    def _edits(self, changes: ChangesOfObjects) -> dict[str, list[TextEdit]]:
        by_text: dict[str, dict[NodePlace, Sequence[ValueChange]]] = {}
        for source, of_object in changes.items():
            by_text.setdefault(source.name, {})[_place(source)] = of_object
        edits = {}
        for name, of_text in by_text.items():
            objects = self._objects[name]
            if isinstance(objects, str):
                raise CannotChange(objects)
            edits[name] = objects.edits(of_text)
        return edits

    def _drop(self, findings: Sequence[tuple[ObjectFindings, LintFinding]], reason: str) -> None:
        for obj, finding in findings:
            self._dropped[_key(obj, finding), finding.message] = DroppedFix(obj.source, obj.title, finding, reason)

    # --- verification ---

    def _accept(
        self, base: _State, best: _State, candidates: Sequence[_Candidate], accepted: list[_Candidate]
    ) -> _State:
        """The state after the candidates that hold, which are added to ``accepted``. ``base``: before the round;
        ``best``: after those accepted so far."""
        if not candidates:
            return best
        if not self._attempts:
            reason = f"{ATTEMPTS} attempts didn't suffice to find out which fixes go together; run it again"
            for candidate in candidates:
                self._drop(candidate.findings, reason)
            return best
        self._attempts -= 1
        try:
            state = self._tried(base, [*accepted, *candidates])
        except _Postponed:
            if len(candidates) == 1:
                return best
        except CannotChange as error:
            if len(candidates) == 1:
                self._drop(candidates[0].findings, str(error))
                return best
        else:
            accepted += candidates
            return state
        half = len(candidates) // 2
        best = self._accept(base, best, candidates[:half], accepted)
        return self._accept(base, best, candidates[half:], accepted)

    def _tried(self, base: _State, candidates: Sequence[_Candidate]) -> _State:
        """The state after all candidates. Raises :class:`CannotChange` if one doesn't hold."""
        changes: dict[DocumentSource, tuple[ValueChange, ...]] = {}
        for candidate in candidates:
            for source, of_object in candidate.changes.items():
                of_source = changes.get(source, ())
                changes[source] = tuple(dict.fromkeys((*of_source, *of_object))) if of_source else of_object
        try:
            edits = self._edits(changes)
        except OverlappingEdits:
            raise _Postponed from None
        texts = dict(base.texts)
        read: dict[str, list[Document]] = {}
        for name, of_text in edits.items():
            texts[name] = base.texts[name].after(of_text)
            read[name] = _read(texts[name])
        documents: list[Document] = []
        for before in base.documents:
            if before.source.name not in read:
                documents.append(before)
                continue
            after = read[before.source.name].pop(0) if read[before.source.name] else None
            wanted = changed(before.raw, changes[before.source]) if before.source in changes else before.raw
            if after is None or _canonical(after.raw) != _canonical(wanted):
                raise CannotChange("its text also means something else, by an anchor or a merge key")
            documents.append(after)
        if any(read.values()):
            raise CannotChange("the text would have further objects")
        result = self.judge(documents)
        objection = _objection(base.result, result, candidates)
        if objection:
            raise CannotChange(objection)
        return _State(tuple(documents), texts, result)


def _written(state: _State, candidates: Sequence[_Candidate]) -> Mapping[str, WrittenObjects | str]:
    """The objects that candidates change, by text; each text is read once. A sentence for one that can't be edited."""
    places: dict[str, dict[NodePlace, None]] = {}
    for candidate in candidates:
        for source in candidate.changes:
            places.setdefault(source.name, {})[_place(source)] = None
    written_objects: dict[str, WrittenObjects | str] = {}
    for name, of_text in places.items():
        if len(state.texts[name].text) > MAX_EDITED:
            written_objects[name] = f"{name} is larger than {MAX_EDITED // 2**20} MiB; split it"
            continue
        try:
            written_objects[name] = WrittenObjects(state.texts[name].text, of_text)
        except CannotChange as error:
            written_objects[name] = str(error)
    return written_objects


def _read(text: ManifestText) -> list[Document]:
    try:
        return list(read_documents(text.content, text.name))
    except DocumentError as error:
        raise CannotChange(f"the text couldn't be read afterwards (line {error.line}: {error.message})") from None


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _place(source: DocumentSource) -> NodePlace:
    return NodePlace(source.document, source.item)


def _findings(result: LintResult) -> Iterator[tuple[ObjectFindings, LintFinding]]:
    for obj in result.checked:
        for finding in obj.findings:
            yield obj, finding


def _key(obj: ObjectFindings, finding: LintFinding) -> FindingKey:
    return replace(obj.source, line=0), finding.id, finding.field


def _counted(result: LintResult) -> Counter[FindingKey]:
    return Counter(_key(*pair) for pair in _findings(result))


def _planned(state: _State, accepted: Sequence[_Candidate]) -> Iterator[PlannedFix]:
    for candidate in accepted:
        edits = tuple((state.texts[name], of_text) for name, of_text in candidate.edits.items())
        for obj, finding in candidate.findings:
            yield PlannedFix(obj.source, finding, edits)


def _objection(before: LintResult, after: LintResult, candidates: Sequence[_Candidate]) -> str:
    """Why a result isn't better; "" if it is."""
    old, new = _counted(before), _counted(after)
    removed = Counter(_key(*pair) for candidate in candidates for pair in candidate.findings)
    if any(new[key] > old[key] - number for key, number in removed.items()):
        return "its finding would stay"
    hidden = _Hidden.by(before, after)
    for obj, finding in _findings(after):
        key = _key(obj, finding)
        if new[key] > old[key] and not hidden.explains(obj, key):
            return f"it would cause another finding: {obj.title}: {finding}"
    return ""


_HIDES = {"address-key": "no-address"}
"""Findings that another one on the same field hides: only an address that is found can be one that isn't read."""


@dataclass(frozen=True)
class _Hidden:
    """What prevented checks before: their findings are brought to light by a fix, not caused."""

    refused: frozenset[DocumentSource]
    """Objects that had a denial by themselves."""
    released: bool
    """An object that counted as missing now exists for the VMs."""
    denied: frozenset[DocumentSource]
    """VMs with a denial, which were not tried any further."""
    present: frozenset[FindingKey]

    @classmethod
    def by(cls, before: LintResult, after: LintResult) -> _Hidden:
        denied = ((manifest, any(finding.severity == DENIAL for finding in of)) for manifest, of in before.manifests)
        return cls(
            frozenset(replace(manifest.source, line=0) for manifest, is_denied in denied if is_denied),
            bool(before.inputs.refused.keys() - after.inputs.refused.keys()),
            frozenset(replace(obj.source, line=0) for obj in before.subjects if obj.denied),
            frozenset(_key(*pair) for pair in _findings(before)),
        )

    def explains(self, obj: ObjectFindings, key: FindingKey) -> bool:
        source, id, place = key
        if source in self.refused or (obj.subject is not None and self.released):
            return True
        if BY_ID[id].last and source in self.denied:
            return True
        return id in _HIDES and (source, _HIDES[id], place) in self.present
