"""``python -m devtools.site.diagrams``: draws every docs/diagrams/NAME.yaml into NAME.svg beside it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from devtools.site.diagrams.drawing import DiagramError, read_drawing
from devtools.site.diagrams.svg import picture

FOLDER: Final = Path(__file__).parents[3] / "docs" / "diagrams"


def main() -> int:
    for source in sorted(FOLDER.glob("*.yaml")):
        try:
            drawing = read_drawing(source.read_text(encoding="utf-8"))
        except DiagramError as error:
            sys.stderr.write("".join(f"{source.name}: {line}\n" for line in str(error).splitlines()))
            return 1
        source.with_suffix(".svg").write_text(picture(drawing), encoding="utf-8")
        sys.stdout.write(f"{source.with_suffix('.svg')}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
