"""A program: ``python -m devtools.hardware_lab.halting_driver ARGUMENT...`` is ``virt-dra ARGUMENT...``, but stops for
ever before its checkpoint is written for the n-th time since the file :data:`HALT_AT` with the number n was made, and
makes the file :data:`HALTED` then. It is for cutting the power at that moment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

HALT_AT: Final = "/run/halt-at"
HALTED: Final = "/run/halted"
_CHECKPOINT: Final = "checkpoint.json"


def halting(replace: Callable[..., None]) -> Callable[..., None]:
    """``os.replace``, but that it doesn't come back where it is to write the checkpoint for the n-th time."""

    def replace_or_halt(source: Any, target: Any, **options: Any) -> None:
        halt_at = Path(HALT_AT)
        if Path(target).name == _CHECKPOINT and halt_at.exists():
            number = int(halt_at.read_text())
            halt_at.write_text(str(number - 1))
            if number == 1:
                Path(HALTED).touch()
                while True:
                    time.sleep(3600)
        replace(source, target, **options)

    return replace_or_halt


if __name__ == "__main__":
    from virt_dra.cli.main import main  # here, since others import this module for the names of its files

    os.replace = halting(os.replace)
    main()
