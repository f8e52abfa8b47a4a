"""Builds the images and says what came of it: ``python -m devtools.containers``, which ``make image`` runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from devtools.containers.building import BuildError, build
from devtools.containers.caching import ROOT
from devtools.containers.oci import ImageArchive


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m devtools.containers", description="Build the images of the Containerfile."
    )
    parser.add_argument(
        "--renew", action="store_true", help="on a new base, of today's packages, instead of what the cache has"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "out" / "image",
        help="gets a link to each OCI archive (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    try:
        built = build(renew=options.renew)
    except BuildError as error:
        sys.stderr.write(f"image: {error}\n")
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    for target, path in built.items():
        link = options.out / f"{target}.tar"
        link.unlink(missing_ok=True)
        link.symlink_to(path)
        archive = ImageArchive(path)
        sizes = archive.sizes()
        megabytes = f"{sizes.compressed / 1e6:.0f} MB compressed, {sizes.uncompressed / 1e6:.0f} MB unpacked"
        sys.stdout.write(f"{link}: {megabytes}, {archive.digest}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
