"""``python -m devtools.site [FOLDER]``: builds the site into a folder (default ``out/site``); exit code 1 says what is
broken."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from devtools.site import building, checking, staging
from devtools.site.reference import PAGES

ROOT: Final = Path(__file__).parents[2]


def build_site(target: Path) -> None:
    """Builds the whole site into ``target``, which is replaced. Raises :class:`.staging.BrokenPages` or
    :class:`.building.BuildFailed`."""
    source = target.with_name(f"{target.name}.source")
    for folder in (source, target, target.with_name(f"{target.name}.doctrees")):
        shutil.rmtree(folder, ignore_errors=True)
    staging.write(staging.staged(ROOT, PAGES), ROOT, source)
    building.build(source.resolve(), target.resolve())
    faults = checking.problems(target.resolve())
    if faults:
        raise building.BuildFailed("\n".join(faults))


def main(arguments: list[str]) -> int:
    target = Path(arguments[0]) if arguments else ROOT / "out" / "site"
    try:
        build_site(target)
    except (staging.BrokenPages, building.BuildFailed) as broken:
        sys.stderr.write(f"{broken}\nerror: the site is not built; mend what is named above\n")
        return 1
    sys.stdout.write(f"{target}/index.html\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
