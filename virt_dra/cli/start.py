"""The entry point of ``virt-dra`` and ``kubectl virt-dra``. Imports nothing large before interrupts are handled."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import NoReturn


def _end(number: int, frame: object) -> NoReturn:
    """Exit as ``cli.shared.endings`` would, which may not be loaded yet. No work has begun that could be left half
    done."""
    try:
        os.write(2, b"error: interrupted\n")
    finally:
        os._exit(130)


def main() -> None:
    """Loads the program, then runs it.

    Until the command is loaded nothing is collected: importing makes many objects and hardly any garbage. Plugins of
    pydantic, which have no say here, aren't looked for in the metadata of every installed package.
    """
    gc.disable()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    loading = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if loading:
        signal.signal(signal.SIGINT, _end)
    if (asked := os.environ.get("_VIRT_DRA_COMPLETE")) is not None:  # by a shell that completes a command line
        from virt_dra.cli.completion.answers import answer_shell

        sys.exit(answer_shell(asked))
    from virt_dra.cli.main import main as run

    def loaded() -> None:
        if loading:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    run(loaded)
