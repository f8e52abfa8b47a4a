"""A program: ``python -m devtools.hardware_lab.halting_driver NUMBER ARGUMENT...`` is ``virt-dra ARGUMENT...``, but
stops for ever before its checkpoint is written for the n-th time, and makes the file :data:`HALTED` then. It is for
cutting the power at that moment."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from virt_dra.cli.main import main

HALTED: Final = "/run/halted"
_CHECKPOINT: Final = "checkpoint.json"


def halting(replace: Callable[..., None], number: int) -> Callable[..., None]:
    """``os.replace``, but that it doesn't come back where it is to write the checkpoint for the n-th time."""
    writes = itertools.count(1)

    def replace_or_halt(source: Any, target: Any, **options: Any) -> None:
        if Path(target).name == _CHECKPOINT and next(writes) == number:
            Path(HALTED).touch()
            while True:
                time.sleep(3600)
        replace(source, target, **options)

    return replace_or_halt


if __name__ == "__main__":
    os.replace = halting(os.replace, int(sys.argv.pop(1)))
    main()
