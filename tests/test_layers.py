"""Folders are layers: the contracts of ``.importlinter`` hold, and they are not empty words."""

from __future__ import annotations

import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONTRACTS = ROOT / ".importlinter"


def _lint_imports(config: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", program, "--no-cache", "--config", str(config)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # devtools, which has the contract type, isn't installed
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def _linted(folder: Path, contract: str, modules: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for module, text in {"house/__init__.py": "", **modules}.items():
        path = folder / module
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    options = (
        "[importlinter]\nroot_package = house\ninclude_external_packages = True\n"
        "contract_types =\n    allow_list: devtools.allow_list.AllowListContract\n"
    )
    (folder / ".importlinter").write_text(f"{options}[importlinter:contract:one]\nname = One\n{contract}")
    return _lint_imports(folder / ".importlinter", folder)


def test_imports_follow_the_contracts() -> None:
    result = _lint_imports(CONTRACTS, ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_layer_that_imports_upwards_is_found(tmp_path: Path) -> None:
    modules = {"house/api.py": "import house.cli\n", "house/cli.py": ""}
    result = _linted(tmp_path, "type = layers\nlayers =\n    house.cli\n    house.api\n", modules)
    assert result.returncode == 1
    assert "house.api is not allowed to import house.cli" in result.stdout


CORE = """type = allow_list
packages = house.core
except_modules = house.core.edge
may_import = house.api json
"""


@pytest.mark.parametrize(
    ("modules", "broken"),
    [
        ({"house/core/new.py": "import house.api\nimport house.core.old\nimport json.decoder\nimport re\n"}, []),
        ({"house/core/new.py": "import house.other\n"}, ["house.core.new -> house.other (l.1)"]),
        ({"house/core/new.py": "import re\nimport time\n"}, ["house.core.new -> time (l.2)"]),
        ({"house/core/new.py": "import yaml\n"}, ["house.core.new -> yaml (l.1)"]),
        ({"house/core/__init__.py": "import time\n"}, ["house.core -> time (l.1)"]),
        ({"house/core/new.py": "import house.core.edge\n"}, ["house.core.new -> house.core.edge (l.1)"]),
        ({"house/core/edge.py": "import time\nimport house.core.old\n"}, []),
        ({"house/core/new.py": "import house.apiary\n"}, ["house.core.new -> house.apiary (l.1)"]),
    ],
)
def test_a_package_imports_only_what_its_list_names(tmp_path: Path, modules: dict[str, str], broken: list[str]) -> None:
    rooms = ("core/__init__", "core/old", "core/edge", "api", "apiary", "other")
    rooms_of_house = {f"house/{room}.py": "" for room in rooms} | {"house/core/old.py": "import house.api, json\n"}
    result = _linted(tmp_path, CORE, rooms_of_house | modules)
    named = [line.removeprefix("Not in the list: ") for line in result.stdout.splitlines() if "Not in" in line]
    assert (result.returncode, named) == (int(bool(broken)), broken), result.stdout


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("packages = house.gone\n", "house.gone: there is no such module"),
        ("packages = house.core\nmay_import = time yaml\n", "may_import: nothing imports time, yaml"),
        ("packages = house.core\nignore_imports =\n    house.core -> time\n", "nothing to ignore: house.core -> time"),
    ],
)
def test_a_contract_about_nothing_is_an_error(tmp_path: Path, options: str, error: str) -> None:
    result = _linted(tmp_path, f"type = allow_list\n{options}", {"house/core/__init__.py": ""})
    assert result.returncode != 0
    assert error in result.stdout + result.stderr


def test_every_package_is_a_layer_and_has_a_list() -> None:
    contracts = ConfigParser(interpolation=None)
    contracts.read(CONTRACTS)
    packages = {f"virt_dra.{path.parent.name}" for path in (ROOT / "virt_dra").glob("*/__init__.py")}
    modules = {f"virt_dra.{path.stem}" for path in (ROOT / "virt_dra").glob("[!_]*.py")}
    layered = contracts["importlinter:contract:layers"]["layers"].replace("|", " ").split()
    listed = {
        package
        for section in contracts.sections()
        if contracts[section].get("type") == "allow_list"
        for package in contracts[section]["packages"].split()
    }
    assert sorted(packages | modules) == sorted(layered)
    assert sorted({*packages, *modules, "webhooks", "launcher", "node_driver"} - listed) == []
