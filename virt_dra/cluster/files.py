"""Objects in files: manifests that users give (also on the web), and the folder into which an embedded cluster is
saved.

The only file access for objects."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from virt_dra.cluster.web_files import NotFetchedError, fetched, is_address, without_password

__all__ = [
    "STDIN",
    "Document",
    "DocumentSource",
    "Loaded",
    "ReadProblem",
    "Sourced",
    "Written",
    "load_folder",
    "read_inputs",
    "read_written",
    "save_folder",
]

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json")
MAX_FILE_BYTES = 512 * 1024 * 1024
"""Larger files are refused, so that an endless one (a device, a pipe) does not fill the memory."""

_HEADER = "# Saved by virt-dra.\n"
"""First line of every file of :func:`save_folder`; only files that begin with it are ever removed."""


def read_inputs(paths: Sequence[str | Path], stdin: BinaryIO | None = None) -> Loaded:
    """All objects in files, folders (recursive, ``*.yaml *.yml *.json``, sorted, hidden ones skipped), URLs and ``-``
    (standard input).

    Never raises for what it finds there: a file that can't be read or understood becomes a problem, and the others are
    still read. A file that is met twice is read once. ``stdin`` replaces the process's standard input.
    """
    objects: list[Sourced[TypedObject]] = []
    problems: list[ReadProblem] = []
    for name, given, text in _texts(paths, stdin):
        loaded = text if isinstance(text, ReadProblem) else _understood(read_objects, text, name)
        if isinstance(loaded, ReadProblem):
            problems.append(loaded)
            continue
        objects += loaded.objects
        problems += loaded.problems
        if given and not loaded.objects and not loaded.problems:
            problems.append(_problem(name, "contains no objects"))
    return Loaded(tuple(objects), tuple(problems))


@dataclass(frozen=True)
class Written:
    """Objects as they are written, whatever their shape, and what could not be read at all."""

    documents: tuple[Document, ...]
    problems: tuple[ReadProblem, ...]
    texts: Mapping[str, bytes] = field(default_factory=dict)
    """By the name of its source, each text that was read."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """By the name of its source, the path of each text that a file has; not of standard input, nor of addresses."""


def read_written(paths: Sequence[str | Path], stdin: BinaryIO | None = None) -> Written:
    """As :func:`read_inputs`, but the objects stay as they are written: for callers that judge that, too."""
    documents: list[Document] = []
    problems: list[ReadProblem] = []
    texts: dict[str, bytes] = {}
    files: dict[str, str] = {}
    for name, given, text in _texts(paths, stdin):
        read = text if isinstance(text, ReadProblem) else _understood(read_documents, text, name)
        if isinstance(read, ReadProblem):
            problems.append(read)
            continue
        documents += read
        if read and isinstance(text, bytes):
            texts[read[0].source.name] = text
            if name != STDIN and not is_address(name):
                files[read[0].source.name] = name
        if given and not read:
            problems.append(_problem(name, "contains no objects"))
    return Written(tuple(documents), tuple(problems), texts, files)


def _texts(paths: Sequence[str | Path], stdin: BinaryIO | None) -> Iterator[tuple[str, bool, bytes | ReadProblem]]:
    """Each file once: its path, whether it was named itself (and not found in a folder), its content."""
    seen: set[str] = set()
    for path in paths:
        for entry in _found(str(path), stdin):
            if isinstance(entry, ReadProblem):
                yield entry.source.name, False, entry
                continue
            name, given = entry
            identity = name if name == STDIN or is_address(name) else os.path.realpath(name)
            if identity not in seen:
                seen.add(identity)
                yield name, given, _text(name, stdin)


def load_folder(folder: str | Path) -> Loaded:
    """The objects of a folder, as :func:`save_folder` wrote them or as users put them there."""
    return read_inputs([folder])


def _found(path: str, stdin: BinaryIO | None) -> Iterator[tuple[str, bool] | ReadProblem]:
    """The files behind one path, each with whether it was named itself (and not found in a folder)."""
    if path == STDIN or is_address(path):
        yield path, True
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
        yield path, True
        return
    errors: list[OSError] = []
    names = sorted(_manifests(path, errors), key=lambda name: Path(name).parts)
    for failed in errors:
        yield _problem(str(failed.filename or path), _reason(failed))
    if not names and not errors:
        yield _problem(path, f"no manifests in this folder; they must end in {', '.join(SUFFIXES)}")
    for name in names:
        yield name, False


def _manifests(folder: str, errors: list[OSError]) -> Iterator[str]:
    for parent, folders, names in os.walk(folder, onerror=errors.append):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.endswith(SUFFIXES) and not name.startswith("."):
                yield str(Path(parent, name))


def _text(path: str, stdin: BinaryIO | None) -> bytes | ReadProblem:
    try:
        if path == STDIN:
            text = (stdin or sys.stdin.buffer).read(MAX_FILE_BYTES + 1)
        elif is_address(path):
            text = fetched(path, MAX_FILE_BYTES)
        else:
            with Path(path).open("rb") as file:
                text = file.read(MAX_FILE_BYTES + 1)
    except NotFetchedError as error:
        return _problem(path, str(error))
    except (OSError, ValueError) as error:
        return _problem(path, _reason(error))
    return (
        text if len(text) <= MAX_FILE_BYTES else _problem(path, f"larger than {MAX_FILE_BYTES // 2**20} MiB; split it")
    )


R = TypeVar("R")


def _understood(read: Callable[[bytes, str], R], text: bytes, path: str) -> R | ReadProblem:
    try:
        return read(text, "standard input" if path == STDIN else _shown(path))
    except DocumentError as error:
        return ReadProblem(
            DocumentSource(error.source, error.line, error.document), f"column {error.column}: {error.message}"
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
    """Write each object to a YAML file of its own, ``<plural>.<group>/<namespace>_<name>.yaml``; the paths, in the
    order of the objects.

    Each file appears as a whole or not at all. Files of an earlier save whose objects are gone are removed; files that
    were not written by this function are neither removed nor changed. Names can be any text: what is unsafe in a file
    name is written as ``%XX``, and objects that would share a file get ``~2``, ``~3``, … Raises OSError.
    """
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    kept = {path for path in root.glob("*/*.yaml") if not _is_ours(path)}
    used = set(kept)
    written: list[Path] = []
    for obj in objects:
        path = _unused(root / _folder_name(obj) / f"{_stem(obj)}.yaml", used)
        used.add(path)
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
    """At most ``_MAX_STEM`` / 2 characters, all of them safe in file names everywhere. Not reversible: the file has the
    name."""
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


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_HEADER)) == _HEADER.encode()
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


class ChangedMeanwhile(Exception):
    """A file changed since it was read. The message names the remedy."""


def replace_content(path: str, before: bytes, after: bytes) -> None:
    """Replaces the content of a file atomically: a reader finds the old or the new content, even after a power failure.

    A symbolic link stays one, and what it leads to is replaced. The file keeps its mode and, as far as this user may do
    that, its owner. ``before``: what was read. Raises :class:`ChangedMeanwhile` if the file has something else now, and
    OSError.
    """
    target = Path(os.path.realpath(path))
    temporary: Path | None = None
    try:
        status = target.stat()
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, "permission denied; it must be writable for this user")
        handle, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=target.parent)
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(after)
            with contextlib.suppress(PermissionError):  # only root gives files away
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
            file.flush()
            os.fsync(file.fileno())
        if target.read_bytes() != before:
            raise ChangedMeanwhile("it has changed since it was read, so it is left as it is; run the command again")
        temporary.replace(target)
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror or str(error), path) from error
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Makes a rename in the folder durable, where the file system supports that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
