"""Folders are layers: the contracts of pyproject.toml hold, and they are not empty words."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def _lint_imports(config: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", program, "--no-cache", "--config", str(config)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_imports_point_down() -> None:
    result = _lint_imports(ROOT / "pyproject.toml", ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_layer_that_imports_upwards_is_found(tmp_path: Path) -> None:
    for module, text in {"house/__init__.py": "", "house/api.py": "import house.cli\n", "house/cli.py": ""}.items():
        path = tmp_path / module
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    contract = """
        [tool.importlinter]
        root_package = "house"
        [[tool.importlinter.contracts]]
        name = "down"
        type = "layers"
        layers = ["house.cli", "house.api"]
    """
    (tmp_path / "pyproject.toml").write_text(contract)
    result = _lint_imports(tmp_path / "pyproject.toml", tmp_path)
    assert result.returncode == 1
    assert "house.api is not allowed to import house.cli" in result.stdout


def test_every_package_of_the_house_is_in_a_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layered = {name for layer in contracts[0]["layers"] for name in layer.split(" | ")}
    packages = {f"virt_dra.{path.parent.name}" for path in (ROOT / "virt_dra").glob("*/__init__.py")}
    modules = {f"virt_dra.{path.stem}" for path in (ROOT / "virt_dra").glob("[!_]*.py")}
    assert packages | modules == layered
