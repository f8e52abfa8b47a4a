"""Names that no API server takes, in rows of one line each."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from virt_dra.cli.main import cli

VMI = """\
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: "x\\e[31m", namespace: "a\\nb"}
spec: {domain: {}}
"""
SHOWN = r"a\nb/x\x1b[31m"


def test_a_vm_has_one_line(tmp_path: Path) -> None:
    path = tmp_path / "vmi.yaml"
    path.write_text(VMI)
    lines = CliRunner().invoke(cli, ["run", str(path)]).stdout.splitlines()
    assert [line.split()[:2] for line in lines if line.startswith(SHOWN)] == [[SHOWN, "no"]]
    assert [line for line in lines if line.startswith("VirtualMachineInstance")] == [
        f"VirtualMachineInstance {SHOWN}: not ready  ({path}:1)"
    ]
    assert CliRunner().invoke(cli, ["run", str(path), "-o", "name"]).stdout == f"virtualmachineinstance/{SHOWN}\n"
    assert CliRunner().invoke(cli, ["explain", "vmi", "y", "-f", str(path)]).stderr == (
        f"error: there is no VMI y in namespace default; there are {SHOWN}\n"
    )
