"""The answers to shells and to kubectl, which ask for completions while a command line is typed.

Shells ask with the variable :data:`ASKED` in the environment (the protocol of click's scripts); kubectl runs
``kubectl_complete-virt_dra`` with the words so far, the last of which is incomplete, and expects lines of value and
description, then a directive (that of cobra).
"""

from __future__ import annotations

import sys
from typing import Final

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from virt_dra.cli.completion.option_table import read_table

ASKED: Final = "_VIRT_DRA_COMPLETE"
PROGRAM: Final = "virt-dra"

_DEFAULT, _NO_FILES, _FOLDERS = 0, 4, 16
"""Directives of cobra: files if the list is empty; only the list; folders."""


class _Bash(BashComplete):
    """Words arrive split at each ``=``, and what is inserted replaces only the part behind the last one."""

    def source(self) -> str:
        return ShellComplete.source(self)  # without asking the bash that is installed here for its version

    def get_completion_args(self) -> tuple[list[str], str]:
        given, incomplete = super().get_completion_args()
        words = [*given, incomplete]
        joined: list[str] = []
        for number, word in enumerate(words):
            if joined and "=" in (word, words[number - 1]):
                joined[-1] += word
            else:
                joined.append(word)
        return joined[:-1], joined[-1]

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        value = incomplete.partition("=")[2] if incomplete.startswith("--") else incomplete
        kept = value[: value.rfind("=") + 1]
        items = super().get_completions(args, incomplete)
        return [CompletionItem(item.value.removeprefix(kept), type=item.type, help=item.help) for item in items]


def _whole_words(items: list[CompletionItem[str]], incomplete: str) -> list[CompletionItem[str]]:
    """``--option=value`` for shells that replace the whole word."""
    option, equals, _ = incomplete.partition("=")
    if not equals or not option.startswith("--"):
        return items
    return [CompletionItem(f"{option}={item.value}", type=item.type, help=item.help) for item in items]


class _Zsh(ZshComplete):
    # Loaded from fpath, the script is the function's body from the second call on: then the context is another, the
    # name the same.
    source_template = ZshComplete.source_template.replace(
        "$zsh_eval_context[-1] == loadautofunc", "$funcstack[1] == _virt-dra"
    )

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        return _whole_words(super().get_completions(args, incomplete), incomplete)


class _Fish(FishComplete):
    # Help texts have commas.
    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        return _whole_words(super().get_completions(args, incomplete), incomplete)


_SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}
SHELLS: Final = tuple(_SHELLS)


def script(shell: str) -> str:
    """The script that makes a shell of :data:`SHELLS` complete ``virt-dra``."""
    return _SHELLS[shell](click.Group(PROGRAM), {}, PROGRAM, ASKED).source()


def answer_shell(instruction: str) -> int:
    """Prints the completions that the environment asks for; ``instruction``: the value of :data:`ASKED`. Returns the
    exit code."""
    shell, _, action = instruction.partition("_")
    if shell not in _SHELLS or action != "complete":
        return 1
    sys.stdout.buffer.write(f"{_SHELLS[shell](read_table(), {}, PROGRAM, ASKED).complete()}\n".encode())
    return 0


def kubectl_lines(words: list[str]) -> list[str]:
    """The answer to kubectl; the last word is the incomplete one, maybe empty."""
    *given, incomplete = words or [""]
    items = ShellComplete(read_table(), {}, PROGRAM, ASKED).get_completions(given, incomplete)
    listed = [item for item in items if item.type == "plain"]
    directive = _NO_FILES if listed or not items else _FOLDERS if items[0].type == "dir" else _DEFAULT
    lines = [f"{item.value}\t{' '.join(item.help.split())}" if item.help else str(item.value) for item in listed]
    return [*lines, f":{directive}"]


def answer_kubectl() -> None:
    """The program ``kubectl_complete-virt_dra``."""
    sys.stdout.write("".join(f"{line}\n" for line in kubectl_lines(sys.argv[1:])))
