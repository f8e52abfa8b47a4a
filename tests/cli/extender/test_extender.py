"""``virt-dra extender`` as a command."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from devtools.cluster.control_plane import ControlPlane
from virt_dra.cli.main import cli
from virt_dra.extender.configuration import scheduler_configuration


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["extender", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_lines_for_kube_scheduler() -> None:
    code, out, _ = run("--print-configuration", "http://127.0.0.1:8766", "--timeout", "0.5")
    assert code == 0
    assert yaml.safe_load(out) == scheduler_configuration("http://127.0.0.1:8766", seconds=0.5)


def test_with_https_kube_scheduler_needs_an_authority() -> None:
    code, out, _ = run("--print-configuration", "https://extender.example.com")
    assert code == 0
    (extender,) = yaml.safe_load(out)["extenders"]
    assert (extender["enableHTTPS"], extender["tlsConfig"]) == (True, {"caFile": "/etc/kubernetes/extender-ca.crt"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "pak"], "Error: Invalid value for '--policy': there is no policy 'pak'; did you mean pack?"),
        (["--client-ca", "x"], "Error: --client-ca goes with --tls-dir"),
        (
            ["--feature-gates", "DRAPartitionableDevice=true"],
            "unrecognized feature gate: DRAPartitionableDevice; did you mean",
        ),
    ],
)
def test_bad_usage(arguments: list[str], message: str) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert message in err


def test_a_certificate_that_is_not_there(tmp_path: Path) -> None:
    code, _, err = run("--tls-dir", str(tmp_path))
    assert code == 2
    assert f"{tmp_path}/tls.crt" in err


def test_a_cluster_that_does_not_answer(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(yaml.safe_dump(_kubeconfig("https://127.0.0.1:9")))
    code, _, err = run("--kubeconfig", str(config), "--port", "0", "--plain-port", "0")
    assert code == 2
    assert "127.0.0.1:9" in err


def _kubeconfig(server: str) -> dict[str, object]:
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": {}}],
    }  # fmt: skip


@pytest.mark.control_plane
@pytest.mark.slow
def test_it_serves_until_it_is_stopped(control_plane: ControlPlane) -> None:
    command = [
        sys.executable,
        "-c",
        "from virt_dra.cli.main import main; main()",
        "extender",
        "--kubeconfig",
        str(control_plane.kubeconfig),
    ]
    with subprocess.Popen([*command, "--port=0", "--plain-port=0"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        serving = json.loads(process.stderr.readline())
        assert serving["message"] == "serving"
        ready = json.loads(process.stderr.readline())
        assert ready["message"] == "ready"
        with urllib.request.urlopen(f"http://127.0.0.1:{serving['plainPort']}/readyz") as answer:
            assert answer.read() == b"ok"
        taken = subprocess.run(
            [*command, f"--port={serving['port']}", "--plain-port=0"], capture_output=True, text=True, check=False
        )
        assert taken.returncode == 2
        assert "Address already in use" in taken.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        with socket.socket() as late:
            assert late.connect_ex(("127.0.0.1", serving["port"])) != 0
