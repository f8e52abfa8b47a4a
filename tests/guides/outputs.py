"""What the commands of a guide write as JSON or YAML, and whether it is as its published schema says.

:class:`OutputRecorder` puts a program ``virt-dra`` before the real one. It notes what each command writes that was
asked for JSON, YAML or JSON lines, and runs each that wasn't, and that only reads, once more with ``-o json``.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.json_schema import SCHEMAS, faults, schema_named

READING: Final = (
    "allocate|cel|config|describe|diff|doctor|domain-xml|explain|get|lint|node-check|plan|report|run|scenario|simulate"
    "|topology|version"
)
"""Commands that only read, and can write JSON."""
_OTHERS: Final = ("install", "render-profile", "extender")
"""Commands whose documents are objects of Kubernetes."""
_LINES: Final = frozenset(("--jsonl", "--workload"))
"""Options of commands that write JSON lines."""

_RECORDER: Final = f"""#!/bin/bash
shopt -s extglob
real="$REAL_VIRT_DRA" note=""
words=" $* "
case "$words" in
  *" -w "*|*" --watch "*|*" --once "*) exec "$real" "$@" ;;
  *" -o json "*|*" -o yaml "*|*" --jsonl "*|*" --workload "*) note=written ;;
  *" -o "*|*" --output"*|*" --out "*|*" --fix "*|*" - "*|*" --help "*|*" --list "*|*" --summary "*) ;;
  *" --placements "*|*" --plot "*|*" --live "*) ;;
  *) case "$1" in {READING}) note=more ;; esac ;;
esac
[ -n "$note" ] || exec "$real" "$@"
file=$(mktemp "$RECORDED/XXXXXXXX")
printf '%s\\0' "$@" >"$file.words"
if [ $note = written ]; then
  "$real" "$@" | tee "$file.out"
  exit "${{PIPESTATUS[0]}}"
fi
"$real" "$@"
code=$?
once=()
for word in "$@"; do case "$word" in -v|--verbose) ;; *) once+=("$word") ;; esac; done
"$real" "${{once[@]}}" -o json </dev/null >"$file.out" 2>"$file.err"
exit $code
"""


def _kinds(schema: Mapping[str, Any]) -> Iterator[str]:
    """The kinds of documents that a schema is of."""
    for part in (schema, *schema.get("anyOf", ()), *schema.get("$defs", {}).values()):
        if "apiVersion" in part.get("properties", ()):
            yield part["properties"]["kind"]["const"]


SCHEMA_OF_KIND: Final[Mapping[str, str]] = {
    kind: name
    for name in (file.name.removesuffix(".schema.json") for file in sorted(SCHEMAS.glob("*.json")))
    for kind in _kinds(schema_named(name))
}


@dataclass(frozen=True)
class RecordedOutput:
    """``words``: the command's arguments."""

    words: tuple[str, ...]
    text: str

    def faults(self) -> list[str]:
        """Where it isn't as its schema says."""
        return [
            f"virt-dra {' '.join(self.words)}: {fault}"
            for document in self._documents()
            for fault in _faults(*document)
        ]

    def _documents(self) -> Iterator[tuple[str, Any]]:
        """Each document with the name of its schema, "" for one that has none."""
        if _LINES & set(self.words):
            documents = [json.loads(line) for line in self.text.splitlines() if line.strip()]
        elif self.words[0] not in _OTHERS:
            documents = [yaml.safe_load(self.text) if "yaml" in self.words else json.loads(self.text)]
        else:
            documents = []
        yield from ((SCHEMA_OF_KIND.get(document.get("kind"), ""), document) for document in documents)


def _faults(name: str, document: Any) -> list[str]:
    return faults(document, schema_named(name)) if name else [f"no schema of {document.get('kind')}"]


class OutputRecorder:
    """``environment``: of a shell in which ``virt-dra`` is noted."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """``environment``: finds the real program."""
        folder.mkdir()
        self._notes = folder / "notes"
        self._notes.mkdir()
        program = folder / "bin" / "virt-dra"
        program.parent.mkdir()
        program.write_text(_RECORDER, encoding="utf-8")
        program.chmod(0o755)
        path = environment.get("PATH", os.environ["PATH"])
        real = shutil.which("virt-dra", path=path)
        assert real is not None
        self.environment = {
            **environment,
            "PATH": f"{program.parent}{os.pathsep}{path}",
            "REAL_VIRT_DRA": real,
            "RECORDED": str(self._notes),
        }

    def outputs(self) -> Sequence[RecordedOutput]:
        return [
            RecordedOutput(
                tuple(file.read_text(encoding="utf-8").split("\0")[:-1]),
                file.with_suffix(".out").read_text(encoding="utf-8"),
            )
            for file in sorted(self._notes.glob("*.words"), key=lambda file: file.stat().st_mtime_ns)
        ]

    def faults(self) -> list[str]:
        return [fault for output in self.outputs() for fault in output.faults()]
