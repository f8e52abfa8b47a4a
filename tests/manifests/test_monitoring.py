"""``install --monitoring``: alerts and dashboard ask for what the processes expose, alerts fire when they should, and
each has its runbook."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import click
import pytest
import yaml

from devtools.cluster.programs import KUBECTL, binary
from devtools.go_tools import go_tool
from devtools.site.reference.metrics import PROCESSES, metric_rows, served_metrics
from node_driver.conditions import ConditionReason
from virt_dra.api.wire import Json
from virt_dra.cli.main import cli
from virt_dra.installation.kustomize import build
from virt_dra.installation.plan import (
    BESIDE_KUBEVIRT,
    MONITORING,
    PARTS,
    STANDALONE,
    WORKLOADS,
    Choices,
    ObjectKey,
    packaged,
    planned,
)

ROOT: Final = Path(__file__).parents[2]
RUNBOOKS: Final = ROOT / "docs" / "runbooks"
CASES: Final = yaml.load((Path(__file__).parent / "cases" / "alerts.yaml").read_text(), yaml.CSafeLoader)
NONE, ONLY = frozenset[str](), frozenset({MONITORING})
_SUFFIXES: Final = {"counter": ("",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


@cache
def series() -> dict[str, frozenset[str]]:
    """Names under which Prometheus stores the processes' metrics, with their labels."""
    rows = [row for process in PROCESSES for row in metric_rows(process)]
    return {
        f"{row.name}{suffix}": frozenset({*row.labels, *(["le"] if suffix == "_bucket" else [])})
        for row in rows
        for suffix in _SUFFIXES[row.kind]
    }


def added(**choices: Any) -> dict[str, Json]:
    """What monitoring adds to an installation, by kind."""
    plain, monitored = (planned(Choices(parts=parts, **choices), packaged()) for parts in (NONE, ONLY))
    assert [obj for obj in monitored if obj in plain] == list(plain)
    return {obj["kind"]: obj for obj in monitored if obj not in plain}


@cache
def groups() -> list[Json]:
    rules: list[Json] = added()["PrometheusRule"]["spec"]["groups"]
    return rules


def alerts() -> dict[str, Json]:
    return {rule["alert"]: rule for group in groups() for rule in group["rules"]}


@cache
def panels() -> list[Json]:
    dashboard: list[Json] = json.loads(added()["ConfigMap"]["data"]["dashboard.json"])["panels"]
    return dashboard


def expressions() -> Iterator[tuple[str, str]]:
    yield from ((name, rule["expr"]) for name, rule in alerts().items())
    yield from ((panel["title"], target["expr"]) for panel in panels() for target in panel["targets"])


# --- what is installed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlay", [BESIDE_KUBEVIRT, STANDALONE])
def test_monitoring_adds_a_monitor_rules_and_a_dashboard_in_the_chosen_namespace(overlay: Any) -> None:
    objects = added(overlay=overlay, namespace="elsewhere")
    labels = {"app.kubernetes.io/part-of": "virt-dra", "app.kubernetes.io/version": "0.1.0"}
    assert {str(ObjectKey.from_object(obj)): obj["metadata"]["labels"] for obj in objects.values()} == {
        "PodMonitor elsewhere/virt-dra": labels,
        "PrometheusRule elsewhere/virt-dra": labels,
        "ConfigMap elsewhere/virt-dra-dashboard": {"grafana_dashboard": "1", **labels},
    }


def test_the_monitor_selects_every_pod_that_is_annotated_for_prometheus_and_no_other() -> None:
    objects = planned(Choices(namespace="elsewhere", parts=frozenset(PARTS)), packaged())
    (monitor,) = (obj["spec"] for obj in objects if obj["kind"] == "PodMonitor")
    (endpoint,) = monitor["podMetricsEndpoints"]
    annotated, monitored = set(), set()
    for workload in (obj for obj in objects if obj["kind"] in WORKLOADS):
        template = workload["spec"]["template"]
        name = workload["metadata"]["name"]
        if port := template["metadata"].get("annotations", {}).get("prometheus.io/port"):
            annotated.add((name, int(port)))
        if (
            workload["metadata"]["namespace"] in monitor["namespaceSelector"]["matchNames"]
            and monitor["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        ):
            ports = template["spec"]["containers"][0].get("ports", ())
            monitored |= {(name, port["containerPort"]) for port in ports if port["name"] == endpoint["port"]}
    assert monitored == annotated
    assert {name for name, _ in monitored} >= {
        "virt-dra-operator", "virt-dra-webhook", "virt-dra-report", "virt-dra-extender",
    }  # fmt: skip
    assert endpoint["path"] == "/metrics"


def test_kustomize_reads_the_same_objects() -> None:
    kubectl = shutil.which("kubectl") or binary(KUBECTL)
    if kubectl is None:
        pytest.skip("kubectl is missing: it carries kustomize, which reads the manifests too")
    folder = str(ROOT / "manifests" / MONITORING)
    printed = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, check=True).stdout
    assert {obj["kind"]: obj for obj in yaml.load_all(printed, yaml.CSafeLoader)} == {
        obj["kind"]: obj for obj in build(packaged(), MONITORING)
    }


# --- alerts and dashboard ask for what there is -----------------------------------------------------------------------


@pytest.mark.parametrize(("where", "expression"), list(expressions()), ids=lambda text: text if len(text) < 40 else "")
def test_every_metric_and_label_that_is_asked_for_is_there(where: str, expression: str) -> None:
    metrics, labels = asked(expression)
    assert metrics
    assert metrics - series().keys() == set(), where
    assert labels - frozenset[str]().union(*(series()[name] for name in metrics)) == set(), where


def asked(expression: str) -> tuple[set[str], set[str]]:
    """The names of metrics and labels in an expression."""
    grouped = re.findall(r"\bby \(([^)]*)\)", expression)
    selected = re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', expression)
    return set(re.findall(r"\bvirt_dra_\w+", expression)), {*re.findall(r"\w+", " ".join(grouped)), *selected}


def test_what_users_must_see_is_on_the_dashboard() -> None:
    shown = {name for panel in panels() for target in panel["targets"] for name in asked(target["expr"])[0]}
    wanted = {
        "virt_dra_devices",
        "virt_dra_vmis",
        "virt_dra_leader",
        "virt_dra_webhook_ready",
        "virt_dra_allocation_to_status_seconds_bucket",
    }
    assert wanted <= shown


def test_what_every_replica_counts_whole_is_never_summed() -> None:
    """Two replicas of the operator would show twice the devices."""
    whole = r"sum(?: by \([^)]*\))? \(virt_dra_(?:devices|vmis)\b"
    assert [where for where, expression in expressions() if re.search(whole, expression.replace("sum(", "sum ("))] == []


def test_the_results_and_states_that_alerts_select_are_those_that_there_are() -> None:
    documented = {
        f"{row.name}{suffix}": row.help
        for process in PROCESSES
        for row in metric_rows(process)
        for suffix in _SUFFIXES[row.kind]
    } | {"virt_dra_driver_tainted_devices": " ".join(ConditionReason)}
    chosen = [
        (name, value)
        for rule in alerts().values()
        for name, label, values in re.findall(r'(\w+)\{(\w+)=~?"([^"]+)"', rule["expr"])
        for value in values.split("|")
        if label in ("result", "state") or (label, name) == ("reason", "virt_dra_driver_tainted_devices")
    ]
    assert chosen
    assert [(name, value) for name, value in chosen if value not in documented[name]] == []


def test_every_alert_says_what_and_how_bad() -> None:
    for name, rule in alerts().items():
        assert re.fullmatch(r"VirtDra[A-Za-z]+", name)
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["description"].endswith((".", "why."))
    assert len(alerts()) == sum(len(group["rules"]) for group in groups())


def test_panels_lie_side_by_side() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels()]
    assert len(set(places)) == len(places)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels())
    assert [panel["id"] for panel in panels()] == list(range(1, len(panels()) + 1))


# --- runbooks ---------------------------------------------------------------------------------------------------------


def test_every_alert_has_its_runbook_and_every_runbook_its_alert() -> None:
    named = {name: rule["annotations"]["runbook_url"] for name, rule in alerts().items()}
    assert named == {name: f"docs/runbooks/{name}.md" for name in alerts()}
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == {*alerts(), "README"}
    index = re.findall(r"^\| \[(\w+)\]\(\1\.md\) \| (\w+) \|", (RUNBOOKS / "README.md").read_text(), re.MULTILINE)
    assert index == [(name, rule["labels"]["severity"]) for name, rule in sorted(alerts().items())]


def test_runbooks_are_linked_where_the_docs_are_served() -> None:
    rules = added(runbooks_url="https://docs.example.com/runbooks")["PrometheusRule"]["spec"]["groups"]
    linked = {rule["alert"]: rule["annotations"]["runbook_url"] for group in rules for rule in group["rules"]}
    assert linked == {name: f"https://docs.example.com/runbooks/{name}.md" for name in alerts()}


@pytest.mark.parametrize("name", sorted(alerts()))
def test_a_runbook_has_cause_check_and_cure_with_commands_that_exist(name: str) -> None:
    text = (RUNBOOKS / f"{name}.md").read_text()
    assert re.findall(r"^#+ .*", text, re.MULTILINE) == [f"# {name}", "## Cause", "## Check", "## Cure"]
    (check,) = re.findall(r"^## Check$.*?^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    commands = [*check.splitlines(), *re.findall(r"`((?:kubectl|virt-dra) [^`]*)`", text)]
    assert {line: wrong for line in commands if (wrong := _wrong(line.split()))} == {}


def _wrong(words: list[str]) -> str:
    """Why a command of a runbook isn't one; "" if it is: what it names is installed, and its options exist."""
    if words[0] == "virt-dra":
        command = cli.get_command(click.Context(cli), words[1])
        if command is None:
            return f"no command {words[1]}"
        try:
            command.make_parser(click.Context(command)).parse_args(words[2:])
        except click.UsageError as error:
            return error.message
        return ""
    parts = Choices(parts=frozenset(PARTS))
    objects = [ObjectKey.from_object(obj) for obj in planned(parts, packaged())]
    named = {key.name for key in objects} | {"virt-dra-operator"}
    unknown = {word for word in re.findall(r"virt-dra-\w[\w-]*", " ".join(words)) if word not in named}
    return f"not installed: {', '.join(sorted(unknown))}" if unknown else ""


# --- what Prometheus says ---------------------------------------------------------------------------------------------


def promtool(*arguments: str, stdin: bytes = b"") -> str:
    """What promtool says; it must find nothing wrong."""
    done = subprocess.run(
        [go_tool("prometheus", "promtool"), *arguments], input=stdin, capture_output=True, check=False
    )
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": groups()}))
    return path


@pytest.mark.go
def test_prometheus_takes_the_rules(rules: Path) -> None:
    said = promtool("check", "rules", "--lint=all", "--lint-fatal", str(rules))
    assert f"SUCCESS: {len(alerts())} rules found" in said


@pytest.mark.go
def test_alerts_fire_when_they_should_and_not_before(rules: Path) -> None:
    fired = {case["alert"] for case in CASES if "fires" in case}
    assert fired == alerts().keys()
    assert {case["alert"] for case in CASES if case["quiet"]} == alerts().keys()
    page = {"rule_files": [rules.name], "evaluation_interval": "1m", "tests": [_unit_test(case) for case in CASES]}
    tests = rules.with_name("tests.yaml")
    tests.write_text(yaml.safe_dump(page))
    promtool("test", "rules", str(tests))


def _unit_test(case: Json) -> Json:
    """A case as promtool has it, which compares whole alerts."""
    name, rule = case["alert"], alerts()[case["alert"]]
    expected: dict[int, list[Json]] = {minute: [] for minute in case["quiet"]}
    if "fires" in case:
        expected[case["fires"]] = [
            {
                "exp_labels": {**labels, **rule["labels"]},
                "exp_annotations": {
                    key: _written(text, labels, case.get("value", "")) for key, text in rule["annotations"].items()
                },
            }
            for labels in case["labels"]
        ]
    return {
        "name": f"{name}, {case['series']}",
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in case["series"].items()],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": exp_alerts}
            for minute, exp_alerts in expected.items()
        ],
    }


def _written(text: str, labels: Json, value: str) -> str:
    """An annotation with its templates filled in."""
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels[match[1]], text)
    return text.replace("{{ $value }}", value)


@pytest.mark.go
def test_every_expression_of_the_dashboard_is_one(tmp_path: Path) -> None:
    path = tmp_path / "dashboard.yaml"
    queries = [
        {"record": f"panel:{panel['id']}:{target['refId']}", "expr": target["expr"].replace("$__rate_interval", "5m")}
        for panel in panels()
        for target in panel["targets"]
    ]
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": queries}]}))
    assert f"SUCCESS: {len(queries)} rules found" in promtool("check", "rules", str(path))


@pytest.mark.go
@pytest.mark.parametrize("process", PROCESSES)
def test_metrics_are_named_as_prometheus_wants_them(process: str) -> None:
    promtool("check", "metrics", stdin=served_metrics(process))
