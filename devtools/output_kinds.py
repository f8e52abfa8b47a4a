"""Every document and line that commands write as JSON or YAML, by the name of its schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from virt_dra.cli.allocate.report import AllocationReportJson
from virt_dra.cli.cel.report import SelectorReportJson
from virt_dra.cli.diff.command import ClusterDifferenceJson
from virt_dra.cli.documents import output_types as types
from virt_dra.cli.documents.heads import ErrorJson
from virt_dra.cli.lint.document_types import LintReportJson
from virt_dra.cli.report.contents import ReportJson
from virt_dra.cli.run.document_types import ClusterRunJson, SeparateRunsJson
from virt_dra.cli.shared.check_report import CheckReportJson
from virt_dra.cli.simulate.prospects import WhatIfJson
from virt_dra.cli.simulate.report import ComparisonJson, SizeReportJson
from virt_dra.inventory.document_types import RowDetailsListJson, TopologyJson
from virt_dra.simulator.explaining.answer import ExplainedAnswerJson
from virt_dra.simulator.workload import WorkloadFiguresJson

LINE: Final = ""
"""In place of a kind: a line, which has none."""
ANSWER: Final = "id"
"""In place of a kind: a line that answers another, and has its ``id``."""


@dataclass(frozen=True)
class OutputKind:
    """``documents``: kinds with the types of their members."""

    title: str
    documents: tuple[tuple[str, Any], ...]


def _of(command: str, *documents: tuple[str, Any]) -> OutputKind:
    return OutputKind(f"What virt-dra {command} writes", documents)


OUTPUTS: Final[Mapping[str, OutputKind]] = {
    "admit-line": _of("admit --jsonl", (ANSWER, types.AdmitAnswerJson)),
    "allocate": _of("allocate -o json", ("AllocationReport", AllocationReportJson)),
    "allocate-figures": _of("allocate --workload", (LINE, WorkloadFiguresJson)),
    "allocate-line": _of("allocate --jsonl", (ANSWER, types.AllocationAnswerJson)),
    "cel": _of("cel -o json", ("SelectorReport", SelectorReportJson)),
    "cel-line": _of("cel --jsonl", (ANSWER, types.SelectorAnswerJson)),
    "check": _of("doctor and node-check -o json", ("CheckReport", CheckReportJson)),
    "configuration": _of("config -o json", ("Configuration", types.ConfigurationJson)),
    "describe": _of("describe -o json", ("InventoryDetailsList", RowDetailsListJson)),
    "device-status-line": _of("device-status --jsonl", (ANSWER, types.DeviceStatusAnswerJson)),
    "diff": _of("diff -o json", ("ClusterDifference", ClusterDifferenceJson)),
    "domain-xml-line": _of("domain-xml --jsonl", (ANSWER, types.DomainAnswerJson)),
    "error": OutputKind("What a command with -o json writes that has no answer", (("Error", ErrorJson),)),
    "explain": _of("explain SUBJECT -o json", ("Explanation", ExplainedAnswerJson)),
    "explain-all": _of("explain -o json", ("ExplanationList", types.ExplanationListJson)),
    "explain-page": _of("explain REASON -o json", ("ReasonPage", types.ReasonPageJson)),
    "get-line": _of("get --watch -o json", (LINE, types.RowChangeJson)),
    "install": _of("install -o json", ("Installation", types.InstallationJson)),
    "lint": _of("lint -o json", ("LintReport", LintReportJson)),
    "placements-line": _of("simulate --placements FILE.jsonl", (LINE, types.StayJson)),
    "release": _of("release -o json", ("ReleaseList", types.ReleaseListJson)),
    "render-line": _of("render --jsonl", (ANSWER, types.RenderAnswerJson)),
    "report": _of("report -o json", ("Report", ReportJson)),
    "run": _of("run -o json", ("RunReport", ClusterRunJson), ("RunReport", SeparateRunsJson)),
    "scenario": _of("scenario -o json", ("ScenarioReport", types.ScenarioReportJson)),
    "scenario-line": _of("scenario --jsonl", (LINE, types.ScenarioAnswerJson)),
    "simulate": _of(
        "simulate -o json", ("Comparison", ComparisonJson), ("SizeReport", SizeReportJson), ("WhatIf", WhatIfJson)
    ),
    "topology": _of("topology -o json", ("Topology", TopologyJson)),
    "uninstall": _of("uninstall -o json", ("Removal", types.RemovalJson)),
    "version": _of("version -o json", ("Version", types.VersionJson)),
}
"""The schemas of get, plan, domain-xml and node-driver --plan are written by hand: get leaves out what is null."""
