"""``virt-dra schema``: JSON Schemas, of what commands write and of KubeVirt's objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, Final

import click

from virt_dra.api.go_text import quoted
from virt_dra.api.kubevirt_versions import NEWEST, KubeVirtVersion
from virt_dra.api.nearest import did_you_mean
from virt_dra.api.schemas.kubevirt_schema import structural_schema
from virt_dra.api.schemas.walk import PRESERVE
from virt_dra.api.wire import Json
from virt_dra.cli.shared.aligned import aligned
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.options import kubevirt_option
from virt_dra.cli.shared.output import refuse

HELP = """Print the JSON Schema of a kind, or list the kinds that have one.

vm and vmi are KubeVirt's VirtualMachine and VirtualMachineInstance, with the fields of a release (--kubevirt-version),
for editors and kubeconform: unknown fields are faults. All others are what commands write with -o json and yaml. """

EPILOG = """\b
Examples:
  virt-dra schema
  virt-dra schema inventory                                      what virt-dra get -o json writes
  virt-dra schema vmi --kubevirt-version 1.9 > /tmp/out/vmi.json

\b
In VS Code, with the YAML extension: # yaml-language-server: $schema=vmi.json as the first line of a manifest.

\b
Exit codes: 0 printed; 2 no such kind has a schema.
"""

DIALECT: Final = "http://json-schema.org/draft-07/schema#"
"""What editors for YAML and kubeconform read."""
OBJECTS: Final = {"vm": "VirtualMachine", "vmi": "VirtualMachineInstance"}
_ENDING: Final = ".schema.json"


def output_kinds() -> dict[str, str]:
    """The names of schemas of outputs, each with its file's text."""
    folder = files("virt_dra.cli.documents").joinpath("schemas")
    named = {file.name.removesuffix(_ENDING): file for file in folder.iterdir() if file.name.endswith(_ENDING)}
    return {name: file.read_text(encoding="utf-8") for name, file in sorted(named.items())}


def object_schema(name: str, version: KubeVirtVersion) -> Json:
    """The schema of one of OBJECTS, for editors."""
    kind = OBJECTS[name]
    schema = _closed(structural_schema(kind, version))
    fixed = {"apiVersion": {"const": "kubevirt.io/v1"}, "kind": {"const": kind}}
    return {
        "$schema": DIALECT,
        "title": f"{kind} of KubeVirt {version}",
        **schema,
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {**schema["properties"], **fixed},
    }


def _closed(schema: Any) -> Any:
    """Without Kubernetes' extensions of JSON Schema. An object has only the fields that are named, unless it keeps
    others."""
    closed = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes-")}
    if "properties" in schema:
        closed["properties"] = {name: _closed(field) for name, field in schema["properties"].items()}
        if not schema.get(PRESERVE) and schema["properties"]:
            closed["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            closed[key] = _closed(schema[key])
    return closed


def _rows(outputs: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Names and titles."""
    yield from ((name, f"KubeVirt's {kind}") for name, kind in OBJECTS.items())
    yield from ((name, json.loads(text)["title"]) for name, text in outputs.items())


@click.command(name="schema", help=HELP, epilog=EPILOG)
@click.argument("name", metavar="[KIND]", default="", shell_complete=lambda *_: [*OBJECTS, *output_kinds()])
@kubevirt_option
def command(name: str, kubevirt: KubeVirtVersion | None) -> None:
    outputs = output_kinds()
    if kubevirt is not None and name not in OBJECTS:
        raise click.UsageError(f"--kubevirt-version goes with {' and '.join(OBJECTS)}")
    if not name:
        say("\n".join(aligned(("KIND", "SCHEMA"), list(_rows(outputs)))))
    elif name in OBJECTS:
        click.echo(json.dumps(object_schema(name, kubevirt or NEWEST), indent=2))
    elif name in outputs:
        click.echo(outputs[name], nl=False)
    else:
        names = (*OBJECTS, *outputs)
        hint = did_you_mean(name, names) or f"; those are: {', '.join(names)}"
        refuse([f"there is no schema of {quoted(name)}{hint}"], "text")
