"""CSV files with named columns."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from virt_dra.api.nearest import nearest
from virt_dra.simulator.experiment.errors import BadExperiment

_GZIP: Final = b"\x1f\x8b"


def read_csv(
    lines: Iterable[str], name: str, required: Sequence[str], optional: Sequence[str] | None = None
) -> Iterator[tuple[int, Mapping[str, str | None]]]:
    """The rows, each with its line and its values by column. ``optional``: the only other columns; None: any. Raises
    BadExperiment."""
    columns = (*required, *(optional or ()))
    reader = csv.DictReader(lines, strict=True)
    try:
        if not reader.fieldnames:
            fault = "is empty" if reader.fieldnames is None else "begins with an empty line"
            raise BadExperiment(f"{name}: {fault}; the first line names the columns {', '.join(columns)}")
        present = [column.strip() for column in reader.fieldnames]
        reader.fieldnames = present
        for column in required:
            if column not in present:
                meant = nearest(column, present)
                hint = f'; "{meant}" is there' if meant is not None else ""
                raise BadExperiment(
                    f"{name}:1: column {column!r} is missing{hint}; the columns are {', '.join(columns)}"
                )
        for column in present:
            if column in columns and present.count(column) > 1:
                raise BadExperiment(f"{name}:1: there are {present.count(column)} columns {column!r}")
            if optional is not None and column not in columns:
                raise BadExperiment(f"{name}:1: unknown column {column[:40]!r}; the columns are {', '.join(columns)}")
        for row in reader:
            if None in row:
                raise BadExperiment(f"{name}:{reader.line_num}: more values than the {len(present)} columns")
            yield reader.line_num, row
    except csv.Error as error:
        raise BadExperiment(f"{name}:{reader.reader.line_num}: not CSV: {error}") from None
    except UnicodeDecodeError as error:
        if error.object.startswith(_GZIP):
            raise BadExperiment(f"{name}: is compressed by gzip; unpack it first: gunzip {name}") from None
        raise BadExperiment(f"{name}: not UTF-8 text: {error}") from None
