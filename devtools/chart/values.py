"""The chart's values: their defaults, what they mean, and the schema that Helm checks them with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from virt_dra.api.reading.yaml_writing import write_yaml
from virt_dra.cli.operator import command as operator
from virt_dra.cli.webhook.command import command as webhook
from virt_dra.installation.plan import BESIDE_KUBEVIRT, PARTS, STANDALONE

Json = dict[str, Any]

_LABEL: Final = r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_NAME: Final = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_IMAGE: Final = r"[A-Za-z0-9][^\s\"'\\]*"
PULL_SECRETS: Final = "imagePullSecrets"
"""The value, and the field of pods."""


@dataclass(frozen=True)
class Value:
    """A value of the chart. ``schema``: of JSON Schema, without the description, which is the comment."""

    default: Any
    comment: str
    schema: Json


def _text(pattern: str = "") -> Json:
    return {"type": "string", **({"pattern": f"^({pattern})?$"} if pattern else {})}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _object(properties: Json) -> Json:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _arguments_of(command: click.Command) -> Json:
    """Arguments that the command knows, as ``virt-dra install`` checks them, each an option with its value in one."""
    flags: list[str] = []
    valued: list[str] = []
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            names = [name[2:] for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--")]
            (flags if parameter.is_flag else valued).extend(names)
    return _list({"type": "string", "pattern": f"^--(({'|'.join(sorted(valued))})=|({'|'.join(sorted(flags))})$)"})


GENERAL: Final[Mapping[str, Value]] = {
    "overlay": Value(
        BESIDE_KUBEVIRT,
        "With the cluster's KubeVirt (beside-kubevirt), or, without one, with VirtualMachines of our own (standalone).",
        {"enum": [BESIDE_KUBEVIRT, STANDALONE]},
    ),
    "namespace": Value(
        "",
        "Namespace of virt-dra itself. Default: that of the release; virt-dra where that is one of the cluster's.\n"
        "The chart creates it where it isn't the release's.",
        _text(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"),
    ),
    "crds": Value(
        True,
        "Whether the CRDs are installed and upgraded with the release. Those of VirtualMachines (standalone) stay\n"
        "when it is removed, with all VMs.",
        {"type": "boolean"},
    ),
    "image": Value(
        "",
        "Image of all pods of virt-dra itself, as in registry.example.com/virt-dra:0.1.0. If empty: virt-dra with\n"
        "this version's tag, which must be on the nodes already.",
        _text(_IMAGE),
    ),
    "launcherImage": Value(
        "", "Standalone: image of launcher pods. If empty: virt-dra-launcher, as for image.", _text(_IMAGE)
    ),
    PULL_SECRETS: Value(
        [],
        "Secrets with which the pods of virt-dra itself pull their images, as in [{name: registry}].",
        _list({**_object({"name": _text(_NAME)}), "required": ["name"]}),
    ),
    "certManager": Value(
        False, "The webhook's certificate from cert-manager instead of an authority of its own.", {"type": "boolean"}
    ),
    "clientCA": Value(
        "",
        "Authorities (PEM) of the client certificate that API servers present to webhooks (--set-file): the webhook\n"
        "then answers only them, and uses everything it knows of the cluster.",
        {"type": "string", "pattern": "^$|-----BEGIN CERTIFICATE-----", "not": {"pattern": "PRIVATE KEY-----"}},
    ),
    "apiServerCIDRs": Value(
        [],
        "Networks from which API servers connect to pods; reviews are accepted only from there. Default: any.",
        _list({"type": "string", "pattern": r"^[0-9a-fA-F.:]+/[0-9]+$"}),
    ),
    "vmNamespaceLabel": Value(
        "",
        "Standalone: VMs run only in namespaces with this label. Default: in all but the cluster's.",
        _text(_LABEL),
    ),
    "launcherPullSecrets": Value(
        [],
        "Standalone: Secrets for pulling images that ServiceAccounts give to launcher pods.",
        _list({"type": "string", "pattern": f"^{_NAME}$"}),
    ),
    "launcherPriority": Value(
        0,
        "Standalone: the value of the cluster's default PriorityClass, which launcher pods get.",
        {"type": "integer"},
    ),
    "runbooksURL": Value(
        "",
        "With monitoring: where the files of docs/runbooks are served, for the alerts' runbook_url.",
        _text(r"https?://[^\s\"'\\]+"),
    ),
}
ARGUMENTS: Final[Mapping[str, click.Command]] = {"operator": operator, "webhook": webhook}
"""Workloads whose arguments the user may add to."""

_OF_WORKLOADS: Final[Mapping[str, Json]] = {
    "enabled": {"type": "boolean"},
    "replicas": {"type": "integer", "minimum": 0},
    "resources": {"type": "object"},
    "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
    "tolerations": _list({"type": "object"}),
}


def values_yaml(workloads: Mapping[str, Json]) -> str:
    """The file of defaults. ``workloads``: by key, what their manifests say."""
    return "\n".join(_entries(workloads))


def _entries(workloads: Mapping[str, Json]) -> Iterator[str]:
    yield "# Defaults of all values. Generated by python -m devtools.chart."
    for name, value in GENERAL.items():
        yield _entry(name, value.comment, value.default)
    for name, defaults in workloads.items():
        yield _entry(name, _purpose(name, defaults), defaults)


def _purpose(name: str, defaults: Json) -> str:
    if name in PARTS:
        purpose = PARTS[name].purpose
        return f"{purpose[0].upper()}{purpose[1:]}."
    also = (
        ". Arguments are added to those of the manifest, as in --log-level=debug." if "arguments" in defaults else "."
    )
    return f"The pods of virt-dra-{name}{also}"


def _entry(name: str, comment: str, default: object) -> str:
    return "".join(f"\n# {line}" for line in comment.splitlines()) + "\n" + write_yaml({name: default}).rstrip()


def values_schema(workloads: Mapping[str, Json]) -> str:
    """The file values.schema.json: Helm refuses values that it doesn't allow."""
    properties = {
        name: {"description": value.comment.replace("\n", " "), **value.schema} for name, value in GENERAL.items()
    }
    for name, defaults in workloads.items():
        schemas: Json = {key: _OF_WORKLOADS[key] for key in defaults if key in _OF_WORKLOADS}
        if name in ARGUMENTS:
            schemas["arguments"] = _arguments_of(ARGUMENTS[name])
        properties[name] = {"description": _purpose(name, defaults), **_object(schemas)}
    # Helm passes it to the charts that another chart depends on.
    properties["global"] = {"type": "object"}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of virt-dra",
        **_object(properties),
    }
    return json.dumps(schema, indent=1) + "\n"
