"""Every document and line that commands write as JSON or YAML, by the name of its schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from node_driver.plan import NodeDevicePlanJson
from virt_dra.cli.allocate.report import AllocationReportJson
from virt_dra.cli.cel.report import SelectorReportJson
from virt_dra.cli.diff.command import ClusterDifferenceJson
from virt_dra.cli.documents import output_types as types
from virt_dra.cli.documents.heads import ErrorJson
from virt_dra.cli.documents.rows import ROW_KINDS, ROW_LIST
from virt_dra.cli.domain_xml.making import DomainListJson
from virt_dra.cli.lint.document_types import LintReportJson
from virt_dra.cli.plan.report import PlanJson
from virt_dra.cli.report.contents import ReportJson
from virt_dra.cli.run.document_types import ClusterRunJson, SeparateRunsJson
from virt_dra.cli.shared.check_report import CheckReportJson
from virt_dra.cli.simulate.prospects import WhatIfJson
from virt_dra.cli.simulate.report import ComparisonJson, SizeReportJson
from virt_dra.inventory.claim_rows import ClaimRow
from virt_dra.inventory.device_rows import DeviceRow
from virt_dra.inventory.document_types import (
    ClaimRowJson,
    DeviceRowJson,
    DriverRowJson,
    PoolRowJson,
    RowDetailsListJson,
    TopologyJson,
    VmRowJson,
)
from virt_dra.inventory.pool_rows import DriverRow, PoolRow
from virt_dra.inventory.vm_rows import VmRow
from virt_dra.simulator.explaining.answer import ExplainedAnswerJson
from virt_dra.simulator.workload import WorkloadFiguresJson


@dataclass(frozen=True)
class OutputKind:
    """``documents``: kinds with the types of their members. ``answers``: each has the ``id`` of a request.
    ``rows``: the kind of a list of them, which are rows of the inventory as objects of Kubernetes look (see
    ``documents.rows``)."""

    title: str
    documents: tuple[tuple[str, Any], ...]
    answers: bool = False
    rows: str = ""


def _of(command: str, *documents: tuple[str, Any]) -> OutputKind:
    return OutputKind(f"What virt-dra {command} writes", documents)


def _answers(command: str, kind: str, type_: Any) -> OutputKind:
    return OutputKind(f"What virt-dra {command} --jsonl writes", ((kind, type_),), answers=True)


_ROW_TYPES: Final[Mapping[type, Any]] = {
    VmRow: VmRowJson,
    DeviceRow: DeviceRowJson,
    ClaimRow: ClaimRowJson,
    PoolRow: PoolRowJson,
    DriverRow: DriverRowJson,
}
OUTPUTS: Final[Mapping[str, OutputKind]] = {
    "admit-line": _answers("admit", "AdmissionAnswer", types.AdmitAnswerJson),
    "allocate": _of("allocate -o json", ("AllocationReport", AllocationReportJson)),
    "allocate-figures": _of("allocate --workload", ("WorkloadFigures", WorkloadFiguresJson)),
    "allocate-line": _answers("allocate", "AllocationAnswer", types.AllocationAnswerJson),
    "cel": _of("cel -o json", ("SelectorReport", SelectorReportJson)),
    "cel-line": _answers("cel", "SelectorAnswer", types.SelectorAnswerJson),
    "check": _of("doctor and node-check -o json", ("CheckReport", CheckReportJson)),
    "configuration": _of("config -o json", ("Configuration", types.ConfigurationJson)),
    "describe": _of("describe -o json", ("InventoryDetailsList", RowDetailsListJson)),
    "device-status-line": _answers("device-status", "DeviceStatusAnswer", types.DeviceStatusAnswerJson),
    "diff": _of("diff -o json", ("ClusterDifference", ClusterDifferenceJson)),
    "domain-xml-line": _answers("domain-xml", "DomainAnswer", types.DomainAnswerJson),
    "error": OutputKind("What a command with -o json writes that has no answer", (("Error", ErrorJson),)),
    "domain-xml": _of("domain-xml -o json", ("DomainList", DomainListJson)),
    "explain": _of("explain SUBJECT -o json", ("Explanation", ExplainedAnswerJson)),
    "explain-all": _of("explain -o json", ("ExplanationList", types.ExplanationListJson)),
    "explain-page": _of("explain REASON -o json", ("ReasonPage", types.ReasonPageJson)),
    "get-line": _of("get --watch -o json", ("RowChange", types.RowChangeJson)),
    "install": _of("install -o json", ("Installation", types.InstallationJson)),
    "inventory": OutputKind(
        "What virt-dra get -o json writes: a list of rows, or one row where one name is asked for",
        tuple((ROW_KINDS[row], type_) for row, type_ in _ROW_TYPES.items()),
        rows=ROW_LIST,
    ),
    "lint": _of("lint -o json", ("LintReport", LintReportJson)),
    "node-driver-plan": _of("node-driver --plan -o json", ("NodeDevicePlan", NodeDevicePlanJson)),
    "placements-line": _of("simulate --placements FILE.jsonl", ("Stay", types.StayJson)),
    "plan": _of("plan -o json", ("Plan", PlanJson)),
    "release": _of("release -o json", ("ReleaseList", types.ReleaseListJson)),
    "render-line": _answers("render", "RenderAnswer", types.RenderAnswerJson),
    "report": _of("report -o json", ("Report", ReportJson)),
    "run": _of("run -o json", ("RunReport", ClusterRunJson), ("RunReport", SeparateRunsJson)),
    "scenario": _of("scenario -o json", ("ScenarioReport", types.ScenarioReportJson)),
    "scenario-line": _of("scenario --jsonl", ("ScenarioAnswer", types.ScenarioAnswerJson)),
    "simulate": _of(
        "simulate -o json", ("Comparison", ComparisonJson), ("SizeReport", SizeReportJson), ("WhatIf", WhatIfJson)
    ),
    "topology": _of("topology -o json", ("Topology", TopologyJson)),
    "uninstall": _of("uninstall -o json", ("Removal", types.RemovalJson)),
    "version": _of("version -o json", ("Version", types.VersionJson)),
}
