"""``virt-dra report-server``: its options, and what it says where it can't serve."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from virt_dra.cli.main import cli


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give either --tls-dir or --self-signed"),
        (("--tls-dir", "a", "--self-signed", "b"), "give either --tls-dir or --self-signed"),
        (("--self-signed", "b"), "--self-signed needs --service or --dns-name"),
        (
            ("--tls-dir", "a", "--dns-name", "x"),
            "--dns-name and --service go with an authority of our own, not with --tls-dir",
        ),
        (("--tls-dir", "/nowhere"), "error: /nowhere/tls.crt: no such file"),
        (("--tls-dir", "a", "--port", "70000"), "70000 is not in the range 0<=x<=65535"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(cli, ["report-server", *arguments])
    assert result.exit_code == 2
    assert said in result.output


def test_where_there_is_no_cluster_it_says_so(tmp_path: Path) -> None:
    program = "from virt_dra.cli.main import main; main()"
    options = (
        "--kubeconfig",
        "none",
        "--self-signed",
        "tls",
        "--dns-name",
        "localhost",
        "--port",
        "0",
        "--plain-port",
        "0",
    )
    command = [sys.executable, "-c", program, "report-server", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert "none" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_serving_process_loads_nothing_that_evaluates_what_tenants_write() -> None:
    loaded = """
import sys
from virt_dra.cli.report import page_forms
from virt_dra.cli.report_server import command, render
from virt_dra.report_server import reviews, serving
print(*sorted({".".join(name.split(".")[:2]) for name in sys.modules if name.startswith(("virt_dra.", "webhooks."))}))
"""
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "virt_dra.api", "virt_dra.cli", "virt_dra.cluster", "virt_dra.html", "virt_dra.model",
        "virt_dra.report_server", "virt_dra.sandbox", "webhooks.server", "webhooks.tls",
    ]  # fmt: skip
