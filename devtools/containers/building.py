"""Builds the images of the Containerfile with buildah, on a base that mmdebstrap makes of Debian's archive: no
registry, no daemon.

It is the Containerfile that releases are built of, stage by stage. Two things differ: the base has the same packages,
but isn't the one with the digest; and Debian packages are those of today. pip's own settings (index, authorities) reach
the build as secrets, which no layer keeps.
"""

from __future__ import annotations

import ast
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final

from devtools.containers.caching import ROOT, TARGETS, archives, cache, key

SUITES: Final = {"13": "trixie"}
"""Debian's name of each version that the Containerfile may stand on."""
MIRROR: Final = "http://deb.debian.org"
"""A proxy to it is ``http_proxy``, which apt and buildah know; the images don't."""
_BASE: Final = re.compile(r"^FROM \S+/debian:(\d+)[.\d]*-slim@\S+ AS base$", re.MULTILINE)
_KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
_LEFT_OUT: Final = (
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/lintian/*",
)
_KEPT: Final = 4
"""So many contents' archives stay in the cache, of 200 MB each."""
_STAGES: Final = 80
"""So many stages of builds, about 3 GB, before all of them go and the next build begins anew."""
_PIP: Final = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout", "retries")
"""pip's settings that say where packages come from. Others, such as folders of this machine, mean nothing in a
build."""


class BuildError(Exception):
    """Why there is no image, in a few lines."""


def build(*, renew: bool = False, root: Path = ROOT) -> dict[str, Path]:
    """The archive of each image, built unless this content was built before. ``renew``: of a new base and today's
    packages.

    One process builds at a time. Raises :class:`BuildError`.
    """
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = {} if renew else archives(root)
        if not built:
            if os.geteuid():
                raise BuildError("building needs root: buildah and mmdebstrap change owners and mount")
            begun = time.monotonic()
            _Build(folder, root).run(renew)
            sys.stderr.write(f"image: built in {time.monotonic() - begun:.0f} s\n")
            built = archives(root)
        return built


class _Build:
    def __init__(self, folder: Path, root: Path) -> None:
        self._folder, self._root = folder, root
        self._storage, self._base = folder / "storage", folder / "base.tar"
        self._log = folder / "log"

    def run(self, renew: bool) -> None:
        self._log.write_text("", encoding="utf-8")
        if renew or self._stages() > _STAGES:
            shutil.rmtree(self._storage, ignore_errors=True)
        if renew:
            self._base.unlink(missing_ok=True)
        self._have_base()
        done = self._folder / key(self._root)
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="building-") as temporary, pip_secrets() as secrets:
            for target in TARGETS:
                name = f"{target}:{version('virt-dra')}"
                sys.stderr.write(f"image: building {name}\n")
                options = (
                    "--isolation",
                    "chroot",
                    "--layers",
                    "--pull-never",
                    "--from",
                    "localhost/base",
                    "--build-arg",
                    "APT=current",
                )
                self._buildah(
                    "build", *options, *secrets, "--target", target, "--tag", f"localhost/{name}", str(self._root)
                )
                self._buildah("push", "--quiet", f"localhost/{name}", f"oci-archive:{temporary}/{target}.tar:{name}")
            shutil.rmtree(done, ignore_errors=True)
            Path(temporary).rename(done)
            Path(temporary).mkdir()  # which is what is removed
        self._forget()

    def _have_base(self) -> None:
        """The image ``localhost/base``: what Debian's own slim image of that version has, of today's packages."""
        if not self._base.exists():
            text = (self._root / "Containerfile").read_text(encoding="utf-8")
            base = _BASE.search(text)
            suite = SUITES.get(base[1]) if base else None
            if suite is None:
                raise BuildError(
                    f"the Containerfile stands on no Debian that {Path(__file__).name} knows: {', '.join(SUITES)}"
                )
            sys.stderr.write(f"image: making a base of Debian {suite}\n")
            with tempfile.TemporaryDirectory(dir=self._folder, prefix="base-") as temporary:
                made = Path(temporary) / "base.tar"
                excluded = [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
                options = (
                    "--quiet",
                    "--mode=root",
                    "--variant=minbase",
                    "--include=ca-certificates",
                    f"--keyring={_KEYRING}",
                )
                kept = "--dpkgopt=path-include=/usr/share/doc/*/copyright"
                self._run("mmdebstrap", *options, *excluded, kept, suite, str(made), *sources(suite))
                shutil.rmtree(self._storage, ignore_errors=True)  # all layers stand on the former one
                made.rename(self._base)
        if (
            "localhost/base:latest"
            not in self._buildah("images", "--noheading", "--format", "{{.Name}}:{{.Tag}}").split()
        ):
            container = self._buildah("from", "--quiet", "scratch").strip()
            self._buildah("add", "--quiet", container, str(self._base), "/")
            self._buildah("config", "--cmd", "bash", container)
            self._buildah("commit", "--quiet", "--rm", container, "localhost/base")

    def _stages(self) -> int:
        return len(self._buildah("images", "--all", "--quiet").split()) if self._storage.exists() else 0

    def _forget(self) -> None:
        """Removes the archives of older contents."""
        built = sorted(self._folder.glob(f"*/{TARGETS[0]}.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in built[_KEPT:]:
            shutil.rmtree(path.parent)

    def _buildah(self, *words: str) -> str:
        # A run root that isn't in the cache: it holds locks and mounts of the running system only.
        return self._run("buildah", "--root", str(self._storage), "--runroot", "/run/virt-dra-images", *words)

    def _run(self, *words: str) -> str:
        """What a command prints. Raises :class:`BuildError` with its last lines."""
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise BuildError(f"{words[0]} is missing: apt-get install {words[0]}") from None
        said = f"$ {' '.join(words)}\n{done.stdout}{done.stderr}"
        with self._log.open("a", encoding="utf-8") as log:
            log.write(said)
        if done.returncode:
            last = "\n".join(said.strip().splitlines()[-8:])
            raise BuildError(f"{words[0]} failed:\n{last}\nall of it: {self._log}")
        return done.stdout


def sources(suite: str, mirror: str = MIRROR) -> tuple[str, ...]:
    """apt's sources of the base, as Debian's own images have them."""
    return (
        f"deb {mirror}/debian {suite} main",
        f"deb {mirror}/debian {suite}-updates main",
        f"deb {mirror}/debian-security {suite}-security main",
    )


def pip_settings(listed: Iterable[str]) -> dict[str, str]:
    """What of ``pip config list`` a build needs, the environment's last as pip has it; ``cert`` too."""
    settings: dict[str, str] = {}
    for line in sorted(listed, key=lambda text: text.startswith(":env:")):
        name, _, value = line.partition("=")
        option = name.rpartition(".")[2]
        if option in (*_PIP, "cert"):
            settings[option] = str(ast.literal_eval(value))
    return settings


def pip_configuration(settings: Mapping[str, str], authorities: str) -> str:
    """A pip.conf. ``authorities``: the file that it names for them; "" for pip's own."""
    lines = [f"{option} = {' '.join(value.split())}" for option, value in sorted(settings.items()) if option in _PIP]
    return "\n".join(("[global]", *lines, *([f"cert = {authorities}"] if authorities else ()))) + "\n"


@contextmanager
def pip_secrets() -> Iterator[Sequence[str]]:
    """Arguments that have pip in a build find packages where pip of this machine does."""
    words = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    settings = pip_settings(listed)
    given = settings.get("cert") or os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE") or ""
    with tempfile.NamedTemporaryFile("w", suffix=".conf", encoding="utf-8") as file:
        file.write(pip_configuration(settings, "/etc/pip.crt" if given else ""))
        file.flush()
        arguments = ["--secret", f"id=pip.conf,src={file.name}"]
        yield [*arguments, "--secret", f"id=pip.crt,src={given}"] if given else arguments
