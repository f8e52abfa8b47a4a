"""Fields of a schema that ``kubectl explain`` has nothing to say of."""

from __future__ import annotations

from typing import Any


def undescribed(schema: dict[str, Any], path: str = "") -> list[str]:
    """The paths of all properties without a description, ``.`` for the schema itself, in their order."""
    found = [path or "."] if not schema.get("description") and not path.endswith("[]") else []
    for name, each in schema.get("properties", {}).items():
        found += undescribed(each, f"{path}.{name}" if path else name)
    return found + (undescribed(schema["items"], f"{path}[]") if "items" in schema else [])
