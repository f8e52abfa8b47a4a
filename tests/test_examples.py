"""Every example does what it says: devices, status and XML as in its golden files, accepted by libvirt; failing ones
fail as expected."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from devtools.libvirt import witness as libvirt_witness
from tests.conftest import Golden
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.cli.main import cli
from virt_dra.cluster.files import read_written
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.simulator.embedded import Ran, RunSettings, run_on
from virt_dra.simulator.preflight import inputs_of, judged_for_run, with_findings
from webhooks.lint import LintSettings as LintSettings

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
ELSEWHERE = (
    "cluster", "diff", "explain", "failing", "inventory", "keep", "plan", "requests", "simulation",
    "testing",
)  # fmt: skip
RUNNING = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name not in ELSEWHERE)
"""Those of ``cluster``, ``diff``, ``explain``, ``keep``, ``plan`` and ``testing`` are run by
tests/guides, those of ``inventory``, ``requests`` and ``simulation`` by tests/cli/test_help_examples.py."""
FAILING = sorted(path.name for path in (EXAMPLES / "failing").iterdir())
WAITING = {"contention": ["third"]}
"""The VMs of an example that don't become ready."""


@lru_cache
def _run(example: str) -> Ran:
    written = read_written((str(EXAMPLES / example),))
    assert written.problems == ()
    judgement = judged_for_run(written.documents, RunSettings(), LintSettings())
    inputs, refused = inputs_of(judgement)
    cluster, now = MemoryCluster.deterministic(), datetime(2026, 1, 1, tzinfo=UTC)
    return with_findings(asyncio.run(run_on(cluster, inputs, RunSettings(), lambda: now, refused)), judgement)


@pytest.mark.parametrize("example", RUNNING)
def test_example_ends_as_its_golden_file_says(example: str, golden: Golden) -> None:
    ran = _run(example)
    assert ran.refused == ()
    assert [outcome.name for outcome in ran.outcomes if not outcome.ready] == WAITING.get(example, [])
    statuses = {
        obj.key: obj.status.device_status.to_wire()
        for obj in ran.objects
        if isinstance(obj, VirtualMachineInstance) and obj.status.device_status
    }
    summary = []
    for outcome in ran.outcomes:
        told = dict[str, Any](outcome.to_json())
        told["source"] = told["source"].removeprefix(f"{ROOT}/")
        if domain := told.pop("domain"):
            golden(f"examples/{example}/{outcome.name}.xml", domain)
        summary.append({**told, "deviceStatus": statuses.get(f"{outcome.namespace}/{outcome.name}")})
    golden(f"examples/{example}/outcomes.json", json.dumps(summary, indent=2) + "\n")


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
@pytest.mark.parametrize("example", RUNNING)
def test_libvirt_accepts_and_defines_every_domain_of_an_example(example: str) -> None:
    domains = [outcome.domain for outcome in _run(example).outcomes if outcome.domain]
    assert domains
    for domain in domains:
        libvirt_witness.validate_with_tool(domain)
        for uri in libvirt_witness.URIS:
            libvirt_witness.define(domain, uri)


@pytest.mark.parametrize("example", FAILING)
def test_failing_example_fails_with_its_message_and_exit_code(example: str) -> None:
    expected = (EXAMPLES / "failing" / example / "EXPECTED").read_text(encoding="utf-8").splitlines()
    result = CliRunner().invoke(cli, ["run", str(EXAMPLES / "failing" / example)])
    assert isinstance(result.exception, SystemExit), result.exception
    assert f"exit {result.exit_code}" == expected[0], result.output
    assert len(expected) > 1
    for line in expected[1:]:
        assert line in result.output, result.output
    assert "Traceback" not in result.output


def test_every_example_has_its_line_in_the_readme() -> None:
    listed = set(re.findall(r"^\| \[([^\]]+)\]", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == {*RUNNING, *FAILING}
