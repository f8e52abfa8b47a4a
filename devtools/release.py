"""Makes the files of a release (``make release``): wheel, sdist, Helm chart, plugin of kubectl, bills of materials, a
provenance statement, and their checksums.

Everything is made of one commit with the locked tools, so that whoever builds the same commit with the same Python and
zlib gets the same bytes: the commit's files are unpacked into a new folder, times are those of the commit, modes and
order are fixed. Signing is left to who has the keys (RELEASE.md).
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from devtools import locks, publishing
from devtools.containers.oci import ImageArchive, InstalledPackage, NoImage

ROOT: Final = Path(__file__).parents[1]
BILLS: Final = {"virt-dra": "image", "virt-dra-launcher": "libvirt"}
"""Images, and the lock file that says which packages they have."""
_SETUP: Final = "requirements/setup.txt"
BUILD_TYPE: Final = "urn:virt-dra:make-release:1"
_BASE: Final = re.compile(r"^FROM (\S+)@sha256:([0-9a-f]{64}) AS base$", re.MULTILINE)


class ReleaseError(Exception):
    """Why there can be no release, in one line."""


def built(source: Path, out: Path, commit: str = "HEAD") -> list[Path]:
    """The wheel and the sdist of a commit of the repository ``source``, written to ``out``. Raises ReleaseError."""
    for name in ("pyproject.toml", _SETUP):
        if not _git(source, "ls-tree", "--name-only", commit, name):
            raise ReleaseError(f"{source} has no {name} in {commit}")
    # Of the commit that is built, which may lock another version than the one that this file is of.
    locked, _ = locks.read(_read(source, commit, _SETUP).decode())
    wanted = next((entry.version for entry in locked if entry.name == "setuptools"), "")
    if not wanted:
        raise ReleaseError(f"{_SETUP} of {commit} locks no setuptools")
    if version("setuptools") != wanted:
        raise ReleaseError(
            f"setuptools is {version('setuptools')}, {commit} locks {wanted}: check it out and run tools/venv.sh dev"
        )
    epoch = _git(source, "show", "--no-patch", "--format=%ct", commit)
    with tempfile.TemporaryDirectory(prefix="virt-dra-release-") as temporary:
        tree = Path(temporary) / "tree"
        archive = subprocess.run(
            ["git", "-c", "tar.umask=0022", "archive", commit], cwd=source, capture_output=True, check=True
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(tree, filter="tar")
        made = Path(temporary) / "made"
        made.mkdir()
        # No setting of the builder's machine reaches the result: time, time zone, locale, hash seed, umask.
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        environment |= {
            "SOURCE_DATE_EPOCH": epoch,
            "PYTHONHASHSEED": "0",
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if (tree / "devtools" / "man_pages.py").exists():
            _run([sys.executable, "-m", "devtools.man_pages"], tree, environment, "the manual pages")
        code = f"from setuptools import build_meta as b; b.build_sdist({str(made)!r}); b.build_wheel({str(made)!r})"
        _run([sys.executable, "-c", code], tree, environment, "the build")
        out.mkdir(parents=True, exist_ok=True)
        paths = []
        for path in sorted(made.iterdir()):
            content = path.read_bytes()
            paths.append(out / path.name)
            paths[-1].write_bytes(content if path.suffix == ".whl" else same_sdist(content, int(epoch)))
        return paths


def _run(words: Sequence[str], folder: Path, environment: Mapping[str, str], step: str) -> None:
    """Raises ReleaseError with the last line of the errors."""
    answer = subprocess.run(
        words, cwd=folder, env=environment, umask=0o022, capture_output=True, text=True, check=False
    )
    if answer.returncode:
        raise ReleaseError(f"{step} failed: {(answer.stderr.strip().splitlines() or ['no message'])[-1]}")


def same_sdist(content: bytes, epoch: int) -> bytes:
    """An sdist (.tar.gz) repacked without what differs between builds: order, times, owners, modes, the header of
    gzip."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(content)) as given,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as made,
    ):
        for member in sorted(given.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname, member.pax_headers = (
                epoch,
                0,
                0,
                "",
                "",
                {},
            )
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            made.addfile(member, given.extractfile(member) if member.isreg() else None)
    return gzip.compress(packed.getvalue(), mtime=epoch)


def statement(
    subjects: Mapping[str, str], materials: Sequence[Mapping[str, Any]], builder: str, parameters: Mapping[str, str]
) -> dict[str, Any]:
    """An in-toto statement with SLSA provenance: what was made (SHA-256 by name), of what, by whom."""
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(subjects.items())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": dict(parameters),
                "resolvedDependencies": [dict(material) for material in materials],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


def materials(source: Path, commit: str, uri: str) -> list[dict[str, Any]]:
    """What a build of the commit is made of: the commit, the lock files, the image that the Containerfile stands on."""
    listed: list[dict[str, Any]] = [
        {"uri": uri, "digest": {"gitCommit": _git(source, "rev-parse", f"{commit}^{{commit}}")}}
    ]
    for name in _git(
        source, "ls-tree", "-r", "--name-only", commit, "requirements/", "tools/control-plane/"
    ).splitlines():
        if name.endswith((".txt", "go.sum")):
            listed.append({"name": name, "digest": {"sha256": _sha256(_read(source, commit, name))}})
    base = _BASE.search(_read(source, commit, "Containerfile").decode())
    if base is None:
        raise ReleaseError("the Containerfile names no base image by digest")
    return [*listed, {"uri": f"oci://{base[1]}", "digest": {"sha256": base[2]}}]


def bill(source: Path, commit: str, image: str, program: Path) -> bytes:
    """The bill of materials of an image's Python packages: CycloneDX, as JSON; the same for the same commit. Raises
    ReleaseError."""
    with tempfile.TemporaryDirectory(prefix="virt-dra-bill-") as temporary:
        project = Path(temporary) / "pyproject.toml"
        project.write_bytes(_read(source, commit, "pyproject.toml"))
        words: list[str | Path] = [
            program,
            "requirements",
            "-",
            "--pyproject",
            project,
            "--output-reproducible",
            "--spec-version",
            "1.6",
            "--validate",
        ]
        answer = subprocess.run(
            words,
            input=_read(source, commit, f"requirements/{BILLS[image]}.txt"),
            env={
                "PATH": os.environ["PATH"],
                "SOURCE_DATE_EPOCH": _git(source, "show", "--no-patch", "--format=%ct", commit),
            },
            capture_output=True,
            check=False,
        )
    if answer.returncode:
        raise ReleaseError(
            f"no bill of materials: {(answer.stderr.decode().strip().splitlines() or ['no message'])[-1]}"
        )
    content = json.loads(answer.stdout)
    for component in content["components"]:
        # It repeats the whole line of the lock file, with the hashes that externalReferences have already.
        component["description"] = f"requirements/{BILLS[image]}.txt"
    content["metadata"]["component"]["name"] = image
    return json.dumps(content, indent=1, sort_keys=True).encode() + b"\n"


def image_bill(archive: ImageArchive, image: str, python: Mapping[str, Any]) -> bytes:
    """The bill of materials of a built image: that of its Python packages, and the Debian packages that are in it.

    Raises ReleaseError where its Python packages are others than those of the bill.
    """
    packages = archive.packages()
    locked = {component["name"]: component["version"] for component in python["components"]}
    there = {package.name: package.version for package in packages.python if package.name != "virt-dra"}
    if there != locked:
        wrong = sorted(name for name in there.keys() | locked.keys() if there.get(name) != locked.get(name))
        raise ReleaseError(
            f"{archive.path}: its Python packages aren't those of requirements/{BILLS[image]}.txt: {', '.join(wrong)}"
        )
    debian = [_debian_component(package, packages.release) for package in packages.debian]
    metadata = dict(python["metadata"])
    component: dict[str, Any] = {
        "type": "container",
        "name": image,
        "version": version("virt-dra"),
        "bom-ref": "root-component",
    }
    component["hashes"] = [{"alg": "SHA-256", "content": archive.digest.removeprefix("sha256:")}]
    metadata["component"] = component
    content = {**python, "metadata": metadata, "components": [*python["components"], *debian]}
    return json.dumps(content, indent=1, sort_keys=True).encode() + b"\n"


def _debian_component(package: InstalledPackage, release: str) -> dict[str, Any]:
    distribution = f"&distro=debian-{release}" if release else ""
    version = quote(package.version, safe="")
    purl = f"pkg:deb/debian/{quote(package.name)}@{version}?arch={package.architecture}{distribution}"
    component: dict[str, Any] = {
        "type": "library",
        "name": package.name,
        "version": package.version,
        "purl": purl,
        "bom-ref": purl,
    }
    if package.source:
        component["properties"] = [{"name": "debian:source", "value": package.source}]
    return component


def write_image_bills(source: Path, out: Path, commit: str, program: Path, images: Mapping[str, Path]) -> list[Path]:
    """Files ``virt-dra.image.cdx.json`` and the like, of OCI archives by image. Raises ReleaseError."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for image, path in images.items():
        try:
            archive = ImageArchive(path)
        except (NoImage, OSError) as error:
            raise ReleaseError(str(error)) from None
        paths.append(out / f"{image}.image.cdx.json")
        paths[-1].write_bytes(image_bill(archive, image, json.loads(bill(source, commit, image, program))))
    return paths


def write_bills(source: Path, out: Path, commit: str, program: Path) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for image in BILLS:
        paths.append(out / f"{image}.cdx.json")
        paths[-1].write_bytes(bill(source, commit, image, program))
    return paths


def write_published(source: Path, out: Path, commit: str, addresses: publishing.Addresses) -> list[Path]:
    """The Helm chart and, of the wheel in ``out``, the plugin of kubectl; its manifest where there is an address for
    it."""
    project = tomllib.loads(_read(source, commit, "pyproject.toml").decode())["project"]["version"]
    epoch = int(_git(source, "show", "--no-patch", "--format=%ct", commit))
    names = _git(source, "ls-tree", "-r", "--name-only", commit, f"{publishing.CHART}/").splitlines()

    def file(name: str) -> bytes:
        return _read(source, commit, name)

    (wheel,) = out.glob("*.whl")
    try:
        name, plugin = publishing.plugin_archive(file, (wheel.name, wheel.read_bytes()), project, epoch)
        made = [publishing.chart_archive(file, names, project, addresses, epoch), (name, plugin)]
    except publishing.NotPublishable as error:
        raise ReleaseError(str(error)) from None
    if addresses.downloads:
        made.append(("virt-dra.krew.yaml", publishing.plugin_manifest(file, name, _sha256(plugin), project, addresses)))
    for name, content in made:
        (out / name).write_bytes(content)
    return [out / name for name, _ in made]


def release(
    source: Path,
    out: Path,
    program: Path,
    *,
    commit: str = "HEAD",
    uri: str,
    builder: str,
    addresses: publishing.Addresses = publishing.NOT_PUBLISHED,
) -> list[Path]:
    """All files of a release. Raises ReleaseError, also where files differ from the commit."""
    changed = _git(source, "status", "--porcelain")
    if changed:
        raise ReleaseError(
            f"files differ from the commit, so nobody could build the same: {changed.splitlines()[0].strip()}"
        )
    if out.exists() and any(out.iterdir()):
        raise ReleaseError(f"{out} is not empty: a release is not mixed with what is there")
    paths = [*built(source, out, commit), *write_published(source, out, commit, addresses)]
    paths += write_bills(source, out, commit, program)
    subjects = {path.name: _sha256(path.read_bytes()) for path in paths}
    parameters = {
        "commit": _git(source, "rev-parse", f"{commit}^{{commit}}"),
        "target": "make release",
        **{name: value for name, value in asdict(addresses).items() if value},
    }
    paths.append(out / "provenance.intoto.json")
    made = statement(subjects, materials(source, commit, uri), builder, parameters)
    paths[-1].write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    subjects[paths[-1].name] = _sha256(paths[-1].read_bytes())
    paths.append(out / "SHA256SUMS")
    paths[-1].write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(subjects.items())), encoding="utf-8")
    return paths


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _git(source: Path, *words: str) -> str:
    answer = subprocess.run(["git", *words], cwd=source, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ReleaseError(f"git {words[0]}: {answer.stderr.strip()}")
    return answer.stdout.strip()


def _read(source: Path, commit: str, name: str) -> bytes:
    return subprocess.run(["git", "show", f"{commit}:{name}"], cwd=source, capture_output=True, check=True).stdout


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m devtools.release", description="Make the files of a release of the present commit."
    )
    parser.add_argument("what", choices=["all", "wheel", "sbom", "image-sbom"])
    parser.add_argument("--source", type=Path, default=ROOT)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--cyclonedx", type=Path, default=ROOT / ".tools" / "bin" / "cyclonedx-py")
    parser.add_argument(
        "--images",
        type=Path,
        default=ROOT / "out" / "image",
        help="folder of IMAGE.tar, OCI archives (default: %(default)s)",
    )
    parser.add_argument("--uri", default="git+virt-dra", help="where the commit can be had (default: %(default)s)")
    parser.add_argument(
        "--builder",
        default="urn:virt-dra:builder:local",
        help="who builds, as verifiers know it (default: %(default)s)",
    )
    parser.add_argument(
        "--registry", default="", help="where the images will be, as in registry.example.com/virt-dra: for the chart"
    )
    parser.add_argument("--downloads", default="", help="URL of the folder with these files: for krew's manifest")
    parser.add_argument("--homepage", default="", help="the project's URL: for krew's manifest")
    options = parser.parse_args(arguments)
    try:
        if options.what == "wheel":
            paths = built(options.source, options.out)
        elif options.what == "sbom":
            paths = write_bills(options.source, options.out, "HEAD", options.cyclonedx)
        elif options.what == "image-sbom":
            images = {image: options.images / f"{image}.tar" for image in BILLS}
            paths = write_image_bills(options.source, options.out, "HEAD", options.cyclonedx, images)
        else:
            addresses = publishing.Addresses(options.registry, options.downloads, options.homepage)
            paths = release(
                options.source, options.out, options.cyclonedx, uri=options.uri, builder=options.builder,
                addresses=addresses,
            )  # fmt: skip
    except (ReleaseError, publishing.NotPublishable) as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    sys.stdout.writelines(f"{_sha256(path.read_bytes())[:12]}  {path}\n" for path in paths)
    return 0


if __name__ == "__main__":
    sys.exit(main())
