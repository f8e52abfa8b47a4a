"""Fields of a schema that ``kubectl explain`` has nothing to say of."""

from __future__ import annotations

from typing import Any


def undescribed(schema: dict[str, Any], path: str = "") -> list[str]:
    """The paths of all properties without a description, ``.`` for the schema itself, in their order."""
    paths = [path or "."] if not schema.get("description") and not path.endswith("[]") else []
    for name, property_ in schema.get("properties", {}).items():
        paths += undescribed(property_, f"{path}.{name}" if path else name)
    return paths + (undescribed(schema["items"], f"{path}[]") if "items" in schema else [])
