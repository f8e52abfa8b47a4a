"""Objects in files: manifests that users give, and the folder into which an embedded cluster is saved."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import (
    Document,
    DocumentError,
    DocumentSource,
    Loaded,
    ReadProblem,
    Sourced,
    read_documents,
    read_objects,
)
from virt_dra.api.reading.yaml_writing import write_yaml
from virt_dra.cluster.manifest_file import Excluded, ManifestFile, manifests_in
from virt_dra.cluster.web_addresses import NotFetchedError, is_address, without_password

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json")
MAX_FILE_BYTES = 512 * 1024 * 1024
"""Larger files are refused, so that an endless one (a device, a pipe) does not fill the memory."""

_EMPTY = "contains no objects"
_HEADER = "# Saved by virt-dra.\n"
"""First line of every file of :func:`save_folder`; only files that begin with it are ever removed."""


def read_inputs(
    paths: Sequence[str | Path],
    stdin: BinaryIO | None = None,
    stored: Callable[[Document], Document] = lambda document: document,
    *,
    by_file: bool = False,
) -> Loaded:
    """All objects in files, folders (recursive, ``*.yaml *.yml *.json``, sorted, hidden ones skipped), URLs and ``-``
    (standard input, or ``stdin``). What can't be read or understood becomes a problem, never an exception. A file that
    is met twice is read once. ``stored``: what an API server makes of a document before it is read; ``by_file``:
    another file names the paths, which are then regular files and folders."""
    objects: list[Sourced[TypedObject]] = []
    problems: list[ReadProblem] = []
    for source in _sources(paths, lambda path: False, by_file=by_file):
        if isinstance(source, ReadProblem):
            problems.append(source)
            continue
        text = source.text(stdin)
        loaded = (
            text
            if isinstance(text, ReadProblem)
            else _understood(partial(read_objects, stored=stored), text, source.name)
        )
        if isinstance(loaded, ReadProblem):
            problems.append(loaded)
            continue
        objects += loaded.objects
        problems += loaded.problems
        if source.named and not loaded.objects and not loaded.problems:
            problems.append(_problem(source.name, _EMPTY))
    return Loaded(tuple(objects), tuple(problems))


def read_file(path: str, *, by_file: bool = False) -> bytes | ReadProblem:
    """The content of a file of another kind, or of standard input for ``-``. ``by_file``: as of :func:`read_inputs`."""
    file = None if path == STDIN else ManifestFile(path, by_file=by_file)
    return _Source(path, file=file).text(None)


@dataclass(frozen=True)
class BrokenFile:
    """A file that could not be read. ``text``: None if it couldn't be opened."""

    problem: ReadProblem
    named: bool
    text: bytes | None = None


@dataclass(frozen=True)
class Written:
    """Objects as they are written, whatever their shape, and what could not be read.

    ``unopened``: what was named and can't be opened. ``broken``: files with texts that can't be read, and those that
    were found in folders and can't be opened.
    """

    documents: tuple[Document, ...]
    unopened: tuple[ReadProblem, ...] = ()
    broken: tuple[BrokenFile, ...] = ()
    texts: Mapping[str, bytes] = field(default_factory=dict)
    """By the name of its source, each text that was read."""
    files: Mapping[str, ManifestFile] = field(default_factory=dict)
    """By the name of its source, the file of each text that has one; standard input and addresses have none."""

    @property
    def problems(self) -> tuple[ReadProblem, ...]:
        return (*self.unopened, *(file.problem for file in self.broken))

    def is_named(self, document: Document) -> bool:
        """True if the document's file was named, and not found in a folder."""
        file = self.files.get(document.source.name)
        return file is None or file.folder is None


def read_written(
    paths: Sequence[str | Path], stdin: BinaryIO | None = None, excluded: Excluded = lambda path: False
) -> Written:
    """As :func:`read_inputs`, but the objects stay as they are written. ``excluded``: what isn't read of folders."""
    documents: list[Document] = []
    unopened: list[ReadProblem] = []
    broken: list[BrokenFile] = []
    texts: dict[str, bytes] = {}
    files: dict[str, ManifestFile] = {}
    for source in _sources(paths, excluded):
        if isinstance(source, ReadProblem):
            unopened.append(source)
            continue
        text = source.text(stdin)
        if isinstance(text, ReadProblem):
            if source.named:
                unopened.append(text)
            else:
                broken.append(BrokenFile(text, named=False))
            continue
        read = _understood(read_documents, text, source.name)
        if isinstance(read, ReadProblem):
            broken.append(BrokenFile(read, source.named, text))
            continue
        documents += read
        if read:
            texts[read[0].source.name] = text
            if source.file is not None:
                files[read[0].source.name] = source.file
        elif source.named:
            broken.append(BrokenFile(_problem(source.name, _EMPTY), source.named, text))
    return Written(tuple(documents), tuple(unopened), tuple(broken), texts, files)


@dataclass(frozen=True)
class _Source:
    """Standard input, an address or a file. ``named``: by the user, and not found in a folder."""

    name: str
    named: bool = True
    file: ManifestFile | None = None

    @property
    def identity(self) -> str:
        return self.name if self.file is None else self.file.identity

    def text(self, stdin: BinaryIO | None) -> bytes | ReadProblem:
        limit = MAX_FILE_BYTES + 1
        try:
            if self.file is not None:
                text = self.file.read(limit)
            elif self.name == STDIN:
                text = (stdin or sys.stdin.buffer).read(limit)
            else:
                from virt_dra.cluster.web_files import fetched  # with clients of HTTP and TLS, which few files need

                text = fetched(self.name)
        except NotFetchedError as error:
            return _problem(self.name, str(error))
        except (OSError, ValueError) as error:
            return _problem(self.name, _reason(error))
        too_large = f"larger than {MAX_FILE_BYTES // 2**20} MiB; split it"
        return text if len(text) < limit else _problem(self.name, too_large)


def _sources(
    paths: Sequence[str | Path], excluded: Excluded, *, by_file: bool = False
) -> Iterator[_Source | ReadProblem]:
    """What is behind the paths, each once."""
    seen: set[str] = set()
    for path in paths:
        for source in _behind(str(path), excluded, by_file):
            if isinstance(source, ReadProblem):
                yield source
            elif source.identity not in seen:
                seen.add(source.identity)
                yield source


def _behind(path: str, excluded: Excluded, by_file: bool) -> Iterator[_Source | ReadProblem]:
    if path == STDIN or is_address(path):
        yield _Source(path)
        return
    if "\0" in path:
        yield _problem(path, "a file name can't contain a NUL character")
        return
    try:
        folder = Path(path).is_dir()
    except OSError as error:
        yield _problem(path, _reason(error))
        return
    if not folder:
        yield _Source(path, file=ManifestFile(path, by_file=by_file))
        return
    errors: list[OSError] = []
    names = sorted(manifests_in(path, SUFFIXES, excluded, errors), key=lambda name: Path(name).parts)
    for failed in errors:
        yield _problem(str(failed.filename or path), _reason(failed))
    if not names and not errors:
        yield _problem(path, f"no manifests in this folder; they must end in {', '.join(SUFFIXES)}")
    for name in names:
        yield _Source(str(Path(name)), named=False, file=ManifestFile(str(Path(name)), path))


R = TypeVar("R")


def _understood(read: Callable[[bytes, str], R], text: bytes, path: str) -> R | ReadProblem:
    try:
        return read(text, "standard input" if path == STDIN else _shown(path))
    except DocumentError as error:
        return ReadProblem(
            DocumentSource(error.source, error.line, error.document),
            f"column {error.column}: {error.message}",
            error.unrendered,
        )


def _problem(path: str, message: str) -> ReadProblem:
    return ReadProblem(DocumentSource("standard input" if path == STDIN else _shown(path), 0), message)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file or folder"
    if isinstance(error, PermissionError):
        return "permission denied; it must be readable for this user"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _shown(path: str) -> str:
    """A path that can be printed: file names may be any bytes, and addresses may have a password."""
    path = without_password(path) if is_address(path) else path
    return path.encode(errors="surrogateescape").decode(errors="replace")


# --- saving -------------------------------------------------------------------------------------------------------

_UNSAFE = re.compile(r"[^a-z0-9.-]|^[.-]")
_MAX_STEM = 180


def save_folder(objects: Iterable[TypedObject], folder: str | Path) -> tuple[Path, ...]:
    """Write each object to a YAML file of its own, ``<plural>.<group>/<namespace>_<name>.yaml``; the paths, in order.

    Each file appears as a whole or not at all. Files of an earlier save whose objects are gone are removed; those that
    this function didn't write are left alone. What is unsafe in a file name is written as ``%XX``, and objects that
    would share a file get ``~2``, ``~3``, … Raises OSError.
    """
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    kept = {path for path in root.glob("*/*.yaml") if not _is_ours(path, root)}
    used = set(kept)
    written: list[Path] = []
    for obj in objects:
        path = _unused(root / _folder_name(obj) / f"{_stem(obj)}.yaml", used)
        used.add(path)
        if path.parent.is_symlink():
            raise OSError(errno.ELOOP, "a link, so nothing is saved through it; remove it", str(path.parent))
        path.parent.mkdir(exist_ok=True)
        write_file(path, _HEADER + write_yaml(obj.to_wire()))
        written.append(path)
    for stale in set(root.glob("*/*.yaml")) - used:
        stale.unlink()
        with contextlib.suppress(OSError):  # only an empty folder goes
            stale.parent.rmdir()
    return tuple(written)


def _folder_name(obj: TypedObject) -> str:
    group = (obj.api_version or obj.API_VERSION).rpartition("/")[0]
    kind = obj.PLURAL or (obj.kind or obj.KIND).lower()
    return _safe(f"{kind}.{group}" if group else kind) or "objects"


def _stem(obj: TypedObject) -> str:
    name = _safe(obj.metadata.name or obj.metadata.generate_name)
    return f"{_safe(obj.metadata.namespace)}_{name}" if obj.metadata.namespace else name or "unnamed"


def _safe(text: str) -> str:
    """At most ``_MAX_STEM`` / 2 characters, safe in file names everywhere. Not reversible: the file has the name."""
    encoded = _UNSAFE.sub(
        lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode(errors="surrogatepass")), text
    )
    return encoded[: _MAX_STEM // 2]


def _unused(path: Path, used: set[Path]) -> Path:
    number, candidate = 1, path
    while candidate in used:
        number += 1
        candidate = path.with_name(f"{path.stem}~{number}.yaml")
    return candidate


def _is_ours(path: Path, root: Path) -> bool:
    try:
        return ManifestFile(str(path), str(root)).read(len(_HEADER)) == _HEADER.encode()
    except OSError:
        return False


def write_file(path: Path, text: str) -> None:
    """Writes a file as a whole: a full disk leaves the previous content, never half of the new one.

    Raises OSError with the file's name, which that of a failed write lacks.
    """
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror or str(error), str(path)) from error
        raise
