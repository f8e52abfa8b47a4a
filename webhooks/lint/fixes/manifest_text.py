"""The text of a file with manifests, as characters: its encoding and byte order mark stay what they are."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from virt_dra.api.editing.edit_diff import DiffedText
from virt_dra.api.editing.text_edits import TextEdit, edited, joined

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(frozen=True)
class ManifestText:
    """A text that a reader of manifests has understood, and the edits of it so far."""

    name: str
    raw: bytes
    edits: tuple[TextEdit, ...] = ()
    """In order, of the text as it was read."""
    _before: str | None = field(default=None, repr=False, compare=False)

    @cached_property
    def _encoding(self) -> tuple[bytes, str]:
        return next(((mark, name) for mark, name in _MARKS if self.raw.startswith(mark)), (b"", "utf-8"))

    @cached_property
    def before(self) -> str:
        mark, encoding = self._encoding
        return self._before if self._before is not None else self.raw[len(mark) :].decode(encoding)

    @cached_property
    def text(self) -> str:
        """The text after the edits."""
        return edited(self.before, self.edits)

    @property
    def content(self) -> bytes:
        """What the file then has."""
        mark, encoding = self._encoding
        return mark + self.text.encode(encoding)

    def after(self, edits: Sequence[TextEdit]) -> ManifestText:
        """The text after further edits, of :attr:`text`."""
        return ManifestText(self.name, self.raw, tuple(joined(self.edits, edits)), self.before)

    @cached_property
    def diff(self) -> str:
        """The unified diff of all edits."""
        return DiffedText(self.before).unified_diff(self.name, self.edits)

    def diff_of(self, edits: Sequence[TextEdit]) -> str:
        """The unified diff of some edits of :attr:`text`."""
        return self._diffed.unified_diff(self.name, edits)

    @cached_property
    def _diffed(self) -> DiffedText:
        return DiffedText(self.text)
