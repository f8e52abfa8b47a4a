"""The reference has every command, option, finding, metric, field of a CRD and public name that the code has."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import click
import pytest

from devtools.site.markdown import code, code_block, escaped
from devtools.site.reference import crds, library
from devtools.site.reference.commands import all_commands, commands_page
from devtools.site.reference.findings import findings_page
from devtools.site.reference.metrics import PROCESSES, MetricRow, metric_rows, metrics_page
from virt_dra.cli.main import SUBCOMMANDS
from webhooks.lint.registry import CHECKS

ROOT = Path(__file__).parents[2]


def test_every_command_has_a_section_with_all_options_examples_and_exit_codes() -> None:
    _, *sections = re.split(r"^## ", commands_page(), flags=re.MULTILINE)
    by_title = {section.partition("\n")[0]: section for section in sections}
    commands = {name: command for name, command, _ in all_commands()}
    assert list(by_title) == list(commands)
    assert {name.split()[1] for name in by_title} == set(SUBCOMMANDS)
    for name, command in commands.items():
        for param in command.params:
            if isinstance(param, click.Option) and not param.hidden:
                assert max(param.opts, key=len) in by_title[name]
        assert "\n\nExamples:\n\n```" in by_title[name], name
        assert "\n**Exit codes:** " in by_title[name], name


def test_every_finding_is_a_row_with_its_page() -> None:
    rows = re.findall(r"^\| \[(.+?)\]\(\.\./docs/lint/(.+?)\.md\) \| (\w+) \|", findings_page(), re.MULTILINE)
    assert rows == [(check.id, check.id, check.severity) for check in CHECKS]
    assert (
        "| [no-address](../docs/lint/no-address.md) | denial | warning | A device without a usable address. |  |\n"
        in findings_page()
    )


def test_every_registry_of_the_product_is_in_the_reference() -> None:
    """A process that gets metrics of its own appears here."""
    with_registry = {
        str(file.relative_to(ROOT))
        for room in ("virt_dra", "webhooks", "launcher")
        for file in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "CollectorRegistry"
    }
    assert with_registry == {
        "webhooks/server/metrics.py",
        "virt_dra/operator/metrics.py",
        "virt_dra/extender/metrics.py",
        "virt_dra/report_server/metrics.py",
    }
    assert PROCESSES == ("webhook", "operator", "keeper", "node driver", "extender", "report server")


@pytest.mark.parametrize("process", PROCESSES)
def test_every_metric_that_the_code_names_is_a_row(process: str) -> None:
    file = {
        "webhook": "webhooks/server/metrics.py",
        "operator": "virt_dra/operator/metrics.py",
        "keeper": "virt_dra/operator/keeper_metrics.py",
        "node driver": "node_driver/metrics.py",
        "extender": "virt_dra/extender/metrics.py",
        "report server": "virt_dra/report_server/metrics.py",
    }[process]
    source = (ROOT / file).read_text(encoding="utf-8")
    if process == "webhook":
        named = {f"virt_dra_webhook_{name}" for name in re.findall(r'(?:counter|gauge|histogram)\(\s*"(\w+)"', source)}
    else:
        named = set(re.findall(r'"(virt_dra_\w+)"', source))
    prefix = {"operator": "virt_dra", "keeper": "virt_dra_keeper"}.get(process)
    if prefix is not None:
        of_both = (ROOT / "virt_dra/operator/metrics.py").read_text(encoding="utf-8")
        named = named - {prefix} | {f"{prefix}_{name}" for name in re.findall(r'f"\{prefix\}_(\w+)"', of_both)}
    assert named
    assert {row.name.removesuffix("_total") for row in metric_rows(process)} == named
    assert all(f"| `{row.name}` | {row.kind} |" in metrics_page() for row in metric_rows(process))


def test_a_metric_has_its_type_labels_and_meaning() -> None:
    rows = {row.name: row for process in PROCESSES for row in metric_rows(process)}
    requests = "Requests to the API server, by verb, resource and HTTP code; 0: no answer."
    assert rows["virt_dra_api_requests_total"] == MetricRow(
        "virt_dra_api_requests_total", "counter", ("verb", "resource", "code"), requests
    )
    devices = "DRA devices of VMIs, by state (Resolved, Pending, Error)."
    assert rows["virt_dra_devices"] == MetricRow("virt_dra_devices", "gauge", ("state",), devices)
    assert rows["virt_dra_extender_answer_seconds"].labels == ("verb",)
    assert rows["virt_dra_leader"].labels == ()


def test_metrics_that_alerts_dashboard_and_documents_use_exist() -> None:
    exposed = {row.name for process in PROCESSES for row in metric_rows(process)}
    files = [*(ROOT / "manifests" / "monitoring").iterdir(), *(ROOT / "docs").rglob("*.md")]
    for file in files:
        for name in re.findall(
            r"\bvirt_dra_(?:webhook|extender|report|api|watch|queue|reconcile)\w*[a-z]\b(?![./*])",
            file.read_text(encoding="utf-8"),
        ):
            assert re.sub(r"_(bucket|sum|count)$", "", name) in exposed, f"{file.relative_to(ROOT)}: {name}"


def test_every_definition_and_field_of_the_manifests_is_a_row() -> None:
    page = crds.crds_page()
    kinds = {definition["spec"]["names"]["kind"] for _, definition in crds.definitions()}
    assert kinds == {
        "DeviceProfile", "KeepPolicy", "VirtDraNodePolicy", "VirtualMachine", "VirtualMachineInstance",
        "VirtualMachineInstanceDevices",
    }  # fmt: skip
    assert "| `status.devices[].pciAddress` | string |" in page
    assert "| `spec.template.spec.domain.devices.gpus[].claim.request` | string |" in page
    assert page.count("\n| `") == sum(
        len(list(crds.fields(version["schema"]["openAPIV3Schema"])))
        for _, definition in crds.definitions()
        for version in definition["spec"]["versions"]
    )


@pytest.fixture(scope="module")
def library_page() -> str:
    return library.library_page()


@pytest.mark.parametrize("name", library.MODULES)
def test_every_public_name_is_in_the_reference_with_a_sentence(name: str, library_page: str) -> None:
    module = importlib.import_module(name)
    named = library.public_names(module)
    listed = getattr(module, "__all__", [member.name for member in named])
    assert [member.name for member in named] == list(listed)
    for member in named:
        assert f"### {name}.{member.name}\n" in library_page
        if isinstance(member.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined = getattr(module, member.name)
            assert (
                inspect.getdoc(defined) is None
                or not member.text
                or inspect.cleandoc(member.text) == inspect.getdoc(defined)
            )


def test_docstrings_become_markdown() -> None:
    docstring = """A ``word`` of :class:`~a.b.Snapshot`; <b> isn't HTML, A[i] no link.

    Used so::

        first = 1

        second = 2

    Raises :func:`allocate`.
    """
    assert library.as_markdown(docstring) == (
        "A `word` of `Snapshot`; \\<b\\> isn't HTML, A\\[i\\] no link.\n\nUsed so:\n\n"
        "```python\nfirst = 1\n\nsecond = 2\n```\n\nRaises `allocate`.\n"
    )


def test_text_and_code_are_written_so_that_nothing_in_them_has_a_meaning() -> None:
    assert escaped("a|b *c* <d> `e` [f](g)") == "a\\|b \\*c\\* \\<d\\> \\`e\\` \\[f\\](g)"
    assert code("a|b") == "`a\\|b`"
    assert code("`") == "`` ` ``"
    assert code_block("```\n", "sh") == "````sh\n```\n````\n"
