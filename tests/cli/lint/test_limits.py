"""Files whose selectors are made to compute for ever: lint and run come to an end, say what they didn't check, and can
be interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.controllers.hostile_selectors import HOSTILE
from virt_dra.cli.main import cli
from virt_dra.simulator import fit
from virt_dra.simulator.deadline import AllocationDeadline

pytestmark = pytest.mark.slow

PROGRAM = "from virt_dra.cli.main import main; main()"
API = "resource.k8s.io/v1"
CLASS: dict[str, Any] = {
    "apiVersion": API,
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
}


def _slice(devices: int) -> dict[str, Any]:
    address = "resource.kubernetes.io/pciBusID"
    made = [
        {"name": f"d{n}", "attributes": {"i": {"int": n}, address: {"string": f"0000:{n:02x}:00.0"}}}
        for n in range(devices)
    ]
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": made,
    }
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": "n-gpus"}, "spec": spec}


def _vms(selector: str, number: int = 1) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = []
    for n in range(number):
        expression = f'device.attributes["gpu.example.com"].i >= 0 && ({selector.replace("10", "1" + str(n % 9), 1)})'
        exactly = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": expression}}]}
        spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
        objects.append(
            {"apiVersion": API, "kind": "ResourceClaimTemplate", "metadata": {"name": f"t{n}"}, "spec": spec}
        )
        claims = [{"name": "gpu", "resourceClaimTemplateName": f"t{n}"}]
        devices = {"gpus": [{"name": "gpu", "claimName": "gpu", "requestName": "gpu"}]}
        domain = {"memory": {"guest": "1Gi"}, "devices": devices}
        vmi = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": f"vm{n}"}}
        objects.append({**vmi, "spec": {"resourceClaims": claims, "domain": domain}})
    return objects


def _files(folder: Path, selector: str, devices: int, vms: int) -> str:
    path = folder / "all.yaml"
    path.write_text(yaml.safe_dump_all([CLASS, _slice(devices), *_vms(selector, vms)]), encoding="utf-8")
    return str(path)


@pytest.fixture
def smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twentieth of the limits or less, since only what follows from them is looked at."""
    monkeypatch.setattr("webhooks.lint.finding.COMMAND_WORK", 500_000)
    monkeypatch.setattr("webhooks.lint.finding.COMMAND_WORK_IN_ALL", 1_500_000)
    monkeypatch.setattr("virt_dra.cli.lint.command.AllocationDeadline", lambda: AllocationDeadline(0.5))


@pytest.mark.usefixtures("smaller")
def test_what_takes_too_long_is_said_to_be_not_checked(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["lint", "-f", _files(tmp_path, HOSTILE["loops in loops"], 60, 1), "-o", "json"])
    vm = json.loads(result.stdout)["objects"][0]
    by_id = {finding["id"]: finding for finding in vm["findings"]}
    assert by_id["selector-not-checked"]["severity"] == "warning"
    assert "no-matching-device" not in by_id
    assert result.exit_code == 0


@pytest.mark.usefixtures("smaller")
def test_many_hostile_vms_share_what_there_is(tmp_path: Path) -> None:
    """Each of them alone would take its whole limit."""
    took: dict[int, float] = {}
    for number in (4, 16):
        began = time.process_time()
        result = CliRunner().invoke(
            cli, ["lint", "-f", _files(tmp_path, HOSTILE["loops in loops"], 60, number), "-o", "json"]
        )
        took[number] = time.process_time() - began
        vms = json.loads(result.stdout)["objects"]
        assert len(vms) == number
        assert all(any(finding["id"] == "selector-not-checked" for finding in vm["findings"]) for vm in vms)
    assert took[16] < 3 * took[4]


def test_after_some_trials_that_took_too_long_no_other_is_begun() -> None:
    assert fit._SPENT < 10


@pytest.mark.parametrize("arguments", [("lint", "-f"), ("run",)], ids=["lint", "run"])
def test_an_interrupt_ends_it_at_once(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", PROGRAM, *arguments, _files(tmp_path, HOSTILE["loops in loops"], 120, 20)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        _wait_until_it_computes(process)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=60)[1]
    assert (process.returncode, told.splitlines()[-1]) == (130, "error: interrupted")
    assert time.monotonic() - began < 10


def _wait_until_it_computes(process: subprocess.Popen[str]) -> None:
    """For longer than its start and all that it reads take."""
    end = time.monotonic() + 120
    used = 0.0
    while used < 4:
        assert process.poll() is None, "it computes for longer than that"
        assert time.monotonic() < end
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        time.sleep(0.1)
