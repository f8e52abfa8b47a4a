"""Guides in Python: blocks ``python`` run in order, and print what the blocks ``text`` below them show."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Final

_FENCE: Final = re.compile(r"^```(?P<kind>python|text)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def check_printed(text: str, page: Path) -> int:
    """Run the blocks of a text of a page in one namespace; fails if one prints something else than is shown. Returns
    how many outputs are shown."""
    namespace: dict[str, object] = {}
    printed, shown = "", 0
    for fence in _FENCE.finditer(text):
        if fence["kind"] == "text":
            assert fence["text"] == printed
            shown += 1
            printed = ""
            continue
        assert printed == "", "a block's output must be shown"
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(fence["text"], str(page), "exec"), namespace)  # noqa: S102 - the guide's own code
        printed = out.getvalue()
    assert printed == "", "a block's output must be shown"
    return shown
