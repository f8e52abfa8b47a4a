"""manifests/monitoring/kube-state-metrics.yaml: what it reads is in the CRD of vmid, and its series are named as
kube-state-metrics and Prometheus want them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from virt_dra.api.wire import Json

MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
CONFIGURATION: Final[Json] = yaml.safe_load((MANIFESTS / "monitoring" / "kube-state-metrics.yaml").read_text())
CRD: Final[Json] = yaml.safe_load(
    (MANIFESTS / "crds" / "beside-kubevirt" / "virtualmachineinstancedevices.yaml").read_text()
)["spec"]
(RESOURCE,) = CONFIGURATION["spec"]["resources"]
FIELDS: Final = {
    "Gauge": {"path", "labelsFromPath", "valueFrom"},
    "Info": {"path", "labelsFromPath"},
    "StateSet": {"path", "labelsFromPath", "valueFrom", "list", "labelName"},
}
"""What kube-state-metrics knows of each type, as far as it is used here."""
RESERVED: Final = {"customresource_group", "customresource_version", "customresource_kind"}
"""Labels that kube-state-metrics adds."""


def schema(path: list[str], start: Json) -> Json:
    """The schema of what a path leads to; of a list, that of its items. Raises KeyError for a path that leads
    nowhere."""
    for field in path:
        start = start["properties"][field]
        start = start.get("items", start)
    return start


def whole() -> Json:
    (version,) = CRD["versions"]
    described: Json = version["schema"]["openAPIV3Schema"]
    # What the API server knows of every object's metadata.
    return {
        "properties": {
            **described["properties"],
            "metadata": {"properties": {"name": {"type": "string"}, "namespace": {"type": "string"}}},
        }
    }


def metrics() -> Iterator[tuple[str, str, Json]]:
    """Name, type and fields of each metric."""
    for metric in RESOURCE["metrics"]:
        kind = metric["each"]["type"]
        (fields,) = (value for key, value in metric["each"].items() if key != "type")
        assert metric["each"].keys() == {"type", kind[0].lower() + kind[1:]}
        yield metric["name"], kind, fields


def test_it_is_about_the_version_of_vmid_that_is_served() -> None:
    assert CONFIGURATION.keys() == {"kind", "spec"}
    assert CONFIGURATION["kind"] == "CustomResourceStateMetrics"
    assert RESOURCE["groupVersionKind"] == {
        "group": CRD["group"],
        "version": next(version["name"] for version in CRD["versions"] if version["served"]),
        "kind": CRD["names"]["kind"],
    }


@pytest.mark.parametrize(("name", "kind", "fields"), list(metrics()), ids=[name for name, _, _ in metrics()])
def test_a_metric_reads_fields_that_vmid_has(name: str, kind: str, fields: Any) -> None:
    assert fields.keys() <= FIELDS[kind]
    element = schema(fields["path"], whole())
    for path in (*fields["labelsFromPath"].values(), *([fields["valueFrom"]] if "valueFrom" in fields else [])):
        assert schema(path, element)["type"] == "string"
    if kind == "StateSet":
        assert fields["list"] == schema(fields["valueFrom"], element)["enum"]
    if kind == "Gauge":  # texts that kube-state-metrics makes numbers of
        assert schema(fields["valueFrom"], element)["enum"] == ["True", "False", "Unknown"]


def test_labels_of_every_series_lead_to_fields() -> None:
    assert {name: schema(path, whole())["type"] for name, path in RESOURCE["labelsFromPath"].items()} == {
        "name": "string",
        "namespace": "string",
    }


def test_names_are_those_of_kube_state_metrics() -> None:
    """After its own prefix they begin with the resource, and end in "info" where the value says nothing."""
    assert "metricNamePrefix" not in RESOURCE
    for name, kind, fields in metrics():
        assert name.startswith(f"{CRD['names']['singular']}_")
        assert name.endswith("_info") is (kind == "Info")
        own = {*fields["labelsFromPath"], *([fields["labelName"]] if "labelName" in fields else [])}
        assert all(re.fullmatch(r"[a-z][a-z_]*", label) for label in own)
        assert own.isdisjoint({*RESERVED, *RESOURCE["labelsFromPath"]})
