"""An authority and its certificate kept in a folder: made when the folder is empty, renewed before they expire.

    folder/current -> state-ab12   ca.crt, ca.key, tls.crt, tls.key of one bundle; replaced as a whole, by another link

So the previous state stays in service if the writer is killed.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from webhooks.tls.authority import (
    CA_CERTIFICATES,
    CA_KEY,
    CERTIFICATE,
    KEY,
    Bundle,
    BundleError,
    KeySource,
    SystemKeys,
    bootstrap,
    renewed,
)
from webhooks.tls.reloading import CertificateError

UtcClock = Callable[[], datetime]
_FILES = (CA_CERTIFICATES, CA_KEY, CERTIFICATE, KEY)
_CURRENT = "current"
_STATE = "state-"


@dataclass(frozen=True)
class AuthorityFolder:
    """A source of certificates that renews itself. Several processes may share the folder: one of them renews, the
    others see it."""

    folder: Path
    dns_names: Sequence[str]
    clock: UtcClock
    keys: KeySource = field(default_factory=SystemKeys)

    @property
    def current(self) -> Path:
        """The folder of the files in service; ``ca.crt`` in it is what clients must trust."""
        return self.folder / _CURRENT

    @property
    def certificate(self) -> Path:
        return self.current / CERTIFICATE

    @property
    def key(self) -> Path:
        return self.current / KEY

    def refresh(self) -> None:
        """Make or renew what is due. Raises :class:`CertificateError`; files that can't be read are never
        overwritten."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / ".lock").open("wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._renew()
        except OSError as error:
            raise CertificateError(f"{error.filename or self.folder}: {error.strerror or error}") from None
        except BundleError as error:
            raise CertificateError(f"{self.folder}: {error}") from None

    def _renew(self) -> None:
        now = self.clock()
        if not self.current.is_symlink():
            _put(self.folder, bootstrap(self.dns_names, now, self.keys).to_files())
            return
        files = {name: path.read_bytes() for name in _FILES if (path := self.current / name).exists()}
        bundle = Bundle.from_files(files)
        renewal = renewed(bundle, self.dns_names, now, self.keys)
        if renewal is not bundle:
            _put(self.folder, renewal.to_files())


def _put(folder: Path, files: Mapping[str, bytes]) -> None:
    """Replace all files by others. Raises OSError."""
    current = folder / _CURRENT
    before = current.readlink().name if current.is_symlink() else ""
    state = Path(tempfile.mkdtemp(prefix=_STATE, dir=folder))  # for its owner only
    try:
        for name, content in files.items():
            (state / name).touch(mode=0o600)  # keys stay private if the folder is made readable
            (state / name).write_bytes(content)
        link = state / _CURRENT
        link.symlink_to(state.name)
        link.replace(current)
    except OSError:
        shutil.rmtree(state, ignore_errors=True)  # or each attempt on a full disk would leave a folder
        raise
    # The previous state stays for its readers; older ones, and those of killed writers, are deleted.
    for old in folder.glob(f"{_STATE}*"):
        if old.name not in (before, state.name):
            shutil.rmtree(old)
