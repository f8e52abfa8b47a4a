"""Lines that commands write, read as tests compare them."""

from __future__ import annotations

import json
from typing import Any

from tests.guides.outputs import SCHEMA_OF_KIND
from tests.json_schema import faults, schema_named
from virt_dra.cli.documents.heads import HEAD, OUTPUT_VERSION


def members_of(line: str, kind: str) -> dict[str, Any]:
    """The members of a line behind its head. Fails for another kind, and where it isn't as its schema says."""
    document: dict[str, Any] = json.loads(line)
    assert [document[name] for name in HEAD] == [OUTPUT_VERSION, kind]
    if kind in SCHEMA_OF_KIND:
        assert faults(document, schema_named(SCHEMA_OF_KIND[kind])) == []
    return {name: value for name, value in document.items() if name not in HEAD}
