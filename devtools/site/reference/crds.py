"""Every CustomResourceDefinition that virt-dra installs, read from the manifests: columns, and each field with type,
limits and meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from devtools.site.markdown import code, escaped, table

MANIFESTS: Final = Path(__file__).parents[3] / "manifests" / "crds"
_INTRODUCTION: Final = """\
# Custom resources

Made of [manifests/crds](../manifests/crds). DeviceProfiles are installed beside KubeVirt and without it.
VirtualMachineInstanceDevices are for clusters with KubeVirt. Without it, virt-dra brings the part of KubeVirt's kinds
that it uses; fields that it doesn't know are kept.
"""
Schema = Mapping[str, Any]


def definitions() -> list[tuple[str, Schema]]:
    """Each definition with the installation that has it (``beside-kubevirt``, ``standalone``)."""
    read = (
        (path.parent.name, yaml.safe_load(path.read_text(encoding="utf-8")))
        for path in sorted(MANIFESTS.rglob("*.yaml"))
    )
    return [(place, definition) for place, definition in read if definition["kind"] == "CustomResourceDefinition"]


def fields(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema, bool]]:
    """Every field below an object: its path (``[]``: of each member of a list), its schema, whether it is required."""
    required = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, inner, name in required
        yield from fields(inner, here)
        yield from fields(inner.get("items", {}), f"{here}[]")


def crds_page() -> str:
    parts = [_INTRODUCTION]
    for place, definition in definitions():
        spec = definition["spec"]
        names = ", ".join(code(name) for name in (spec["names"]["plural"], *spec["names"].get("shortNames", ())))
        parts.append(
            f"## {spec['names']['kind']}\n\nGroup {code(spec['group'])}, "
            f"{spec['scope'].lower()}; {names}. Installed: {place}.\n"
        )
        for version in spec["versions"]:
            columns = (
                (escaped(column["name"]), code(column["jsonPath"]), "`-o wide` only" if column.get("priority") else "")
                for column in version.get("additionalPrinterColumns", ())
            )
            rows = (
                (code(path), _type(schema), escaped(schema.get("description", "")) + _limits(schema, required))
                for path, schema, required in fields(version["schema"]["openAPIV3Schema"])
            )
            parts += [
                f"### {spec['names']['kind']} {version['name']}\n",
                table(("column of kubectl get", "shows", ""), columns),
                table(("field", "type", "meaning"), rows),
            ]
            checked = [rule["message"] for rule in _rules(version["schema"]["openAPIV3Schema"])]
            if checked:
                parts.append("The API server refuses an object that breaks a rule, with one of these messages:\n")
                parts.append("".join(f"* {escaped(message)}\n" for message in dict.fromkeys(checked)))
    return "\n".join(parts)


def _rules(schema: Schema) -> Iterator[Mapping[str, str]]:
    yield from schema.get("x-kubernetes-validations", ())
    for inner in (*schema.get("properties", {}).values(), schema.get("items", {})):
        if inner:
            yield from _rules(inner)


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map of {_type(schema['additionalProperties'])}"
    return str(schema["type"])


def _limits(schema: Schema, required: bool) -> str:
    limits = ["Required."] if required else []
    if "enum" in schema:
        limits.append(f"One of {', '.join(map(code, schema['enum']))}.")
    limits += [
        f"{text} {schema[key]}."
        for key, text in (("maxItems", "Members at most"), ("maxLength", "Characters at most"))
        if key in schema
    ]
    if "pattern" in schema and not schema.get("x-kubernetes-int-or-string"):
        limits.append(f"Pattern {code(schema['pattern'])}.")
    return "".join(f" {limit}" for limit in limits)
