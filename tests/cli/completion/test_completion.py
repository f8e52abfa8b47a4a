"""``virt-dra completion`` in real shells, and the completion of kubectl's plugin."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.completion.terminal import BIN, PROMPT, shell_terminal
from virt_dra.cli.completion.answers import SHELLS, kubectl_lines

ROOT = Path(__file__).parent.parent.parent.parent
ENVIRONMENT = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
LINES = [
    ("virt-dra expl", "virt-dra explain"),
    ("virt-dra lint --outp", "virt-dra lint --output"),
    ("virt-dra lint -o sar", "virt-dra lint -o sarif"),
    ("virt-dra lint --output=sar", "virt-dra lint --output=sarif"),
    ("virt-dra lint -f CHANGEL", "virt-dra lint -f CHANGELOG.md"),
    ("virt-dra run CHANGEL", "virt-dra run CHANGELOG.md"),
    ("virt-dra get dev", "virt-dra get devices"),
    ("virt-dra lint --ignore address-key,devices-t", "virt-dra lint --ignore address-key,devices-tainted"),
    ("virt-dra completion z", "virt-dra completion zsh"),
]
"""What is typed, and what a tab makes of it."""
SWITCHES = ("virt-dra simulate --policy pack,lea", "virt-dra simulate --policy pack,least-")


def _required(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"needs {program}; on Debian and Ubuntu: apt-get install {program}")
    return path


def _script(shell: str) -> str:
    return subprocess.run([BIN / "virt-dra", "completion", shell], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_bash_completes(tmp_path: Path) -> None:
    script = _script("bash")
    startup = tmp_path / "bashrc"
    startup.write_text(f"PS1='{PROMPT}'\nbind 'set enable-bracketed-paste off'\n{script}", encoding="utf-8")
    with shell_terminal([_required("bash"), "--noprofile", "--rcfile", str(startup), "-i"], {}) as terminal:
        terminal.until(PROMPT)
        assert [(typed, terminal.completed(typed)) for typed, _ in LINES] == LINES
        assert terminal.completed(SWITCHES[0]) == SWITCHES[1]


@pytest.mark.slow
def test_zsh_completes(tmp_path: Path) -> None:
    """The script in a folder of fpath, as the help text says. EXTRA_ZSHRC: of a zsh that isn't installed where it was
    built for."""
    shell = _required("zsh")
    folder = tmp_path / ".zfunc"
    folder.mkdir()
    (folder / "_virt-dra").write_text(_script("zsh"), encoding="utf-8")
    setup = f"PROMPT='{PROMPT}'\nbindkey -e\nunsetopt zle_bracketed_paste\n{os.environ.get('EXTRA_ZSHRC', '')}\n"
    (tmp_path / ".zshrc").write_text(
        f"{setup}fpath+=({folder})\nautoload -U compinit && compinit -u -D\n", encoding="utf-8"
    )
    with shell_terminal([shell, "-i"], {"ZDOTDIR": str(tmp_path), "HOME": str(tmp_path)}) as terminal:
        terminal.until(PROMPT)
        assert [(typed, terminal.completed(typed)) for typed, _ in LINES] == LINES
        assert terminal.completed(SWITCHES[0]) == SWITCHES[1]


@pytest.mark.slow
def test_fish_completes(tmp_path: Path) -> None:
    shell = _required("fish")
    script = tmp_path / "virt-dra.fish"
    script.write_text(_script("fish"), encoding="utf-8")
    environment = {**ENVIRONMENT, "XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    for typed, completed in LINES:
        asked = [shell, "-c", "source $argv[1]; complete -C $argv[2]", str(script), typed]
        result = subprocess.run(asked, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        words = [line.partition("\t")[0] for line in result.stdout.splitlines()]
        assert (typed, words) == (typed, [completed.split()[-1]] if completed != typed else [])
    asked = [shell, "-c", "source $argv[1]; complete -C 'virt-dra expl'", str(script)]
    result = subprocess.run(asked, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == "explain\tExplain why a VM or claim gets no place, and what would help.\n"


def test_what_click_prints_is_corrected() -> None:
    """The scripts are click's but for two faults: a newer click must not make the corrections miss."""
    assert "funcstack[1] == _virt-dra" in _script("zsh")
    assert 'string split --max 1 ","' in _script("fish")


def test_kubectl_is_answered_in_its_format() -> None:
    assert kubectl_lines(["lint", "--outp"]) == ["--output\tFormat of the output", ":4"]
    assert kubectl_lines(["lint", "-o", "js"]) == ["json", ":4"]
    assert kubectl_lines(["lint", "--output=js"]) == ["json", ":4"]
    assert kubectl_lines(["lint", "-f", ""]) == [":0"]
    assert kubectl_lines(["run", "--out", ""]) == [":16"]
    assert kubectl_lines(["expl"]) == ["explain\tExplain why a VM or claim gets no place, and what would help.", ":4"]
    assert kubectl_lines(["nonsense", ""])[-1] == ":4"
    assert kubectl_lines([])[0].startswith("lint\t")


def test_kubectl_completes_its_plugin() -> None:
    kubectl = _required("kubectl")
    asked = [kubectl, "__complete", "virt-dra", "lint", "-o", "js"]
    ran = subprocess.run(asked, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert ran.stdout == "json\n:4\n"


@pytest.mark.parametrize("instruction", ["", "bash", "bash_source", "powershell_complete", "x_y_z"])
def test_what_no_shell_asks_is_not_answered(instruction: str) -> None:
    asked = {**ENVIRONMENT, "_VIRT_DRA_COMPLETE": instruction}
    ran = subprocess.run([BIN / "virt-dra"], env=asked, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_completion_is_answered_at_once(shell: str) -> None:
    """Measured in time of a processor: the options of a command whose own modules take more than half a second."""
    asked = {
        **ENVIRONMENT,
        "_VIRT_DRA_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "virt-dra\nrun\n--o",
        "COMP_CWORD": "2",
    }
    if shell == "fish":
        asked["COMP_CWORD"] = "--o"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run([BIN / "virt-dra"], env=asked, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "--out" in ran.stdout
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.3
