"""The configuration of ``virt-dra lint`` in a repository: ``[lint]`` of ``.virt-dra.toml``, or ``[tool.virt-dra.lint]``
of ``pyproject.toml``.

The nearest of them counts, from the current folder up to the root of its git repository; outside of one, that of the
current folder alone, so that nobody else's file above it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import click
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from virt_dra.api.go_text import visible
from virt_dra.api.nearest import did_you_mean
from virt_dra.cli.shared.lint_options import EVERY
from virt_dra.cluster.manifest_file import ManifestFile
from webhooks.lint import BY_ID

NAME: Final = ".virt-dra.toml"
PYPROJECT: Final = "pyproject.toml"
_MAX_BYTES: Final = 1024 * 1024


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _finding(id: str) -> str:
    if id not in BY_ID and id != EVERY:
        raise ValueError(f"{id!r} is no finding{did_you_mean(id, BY_ID)}")
    return id


FindingId = Annotated[str, AfterValidator(_finding)]


class LintTable(BaseModel):
    """The keys, named like the options that they set."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=_dashed, defer_build=True)

    filename: list[str] = []
    exclude: list[str] = []
    deny: list[FindingId] = []
    warn: list[FindingId] = []
    ignore: list[FindingId] = []
    kubevirt_version: str | None = None
    kubevirt_gates: dict[str, bool] = {}
    namespace: str | None = None
    address_keys: str | None = None
    strict: bool | None = None
    complete: bool | None = None
    summary: bool | None = None
    quiet: bool | None = None


@dataclass(frozen=True)
class LintConfiguration:
    """``file``: where it was read; "" if there is none. Its paths and patterns are relative to its folder."""

    file: str = ""
    table: LintTable = field(default_factory=LintTable)

    @property
    def folder(self) -> Path:
        return Path(self.file).parent

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Values of the command's parameters where no option is given."""
        table = self.table
        gates = [f"{gate}={str(enabled).lower()}" for gate, enabled in table.kubevirt_gates.items()]
        values: dict[str, Any] = {
            "named": [name if "://" in name else str(self.folder / name) for name in table.filename],
            "deny": table.deny,
            "warn": table.warn,
            "ignore": table.ignore,
            "kubevirt": table.kubevirt_version,
            "gates": gates,
            "namespace": table.namespace,
            "address_keys": None if table.address_keys is None else str(self.folder / table.address_keys),
            "strict": table.strict,
            "complete": table.complete,
            "summary": table.summary,
            "quiet": table.quiet,
        }
        return {name: value for name, value in values.items() if value not in (None, [])}


def read_configuration(path: Path, *, named: bool = True) -> LintConfiguration | None:
    """The configuration of a file; None for a pyproject.toml without the table. ``named``: by the user; one that was
    come across is only read if it is a regular file there, and names only files and folders beside it. Raises
    UsageError that names what is wrong."""
    import tomllib  # here, since few have a configuration, and linting a file is to start quickly

    file = ManifestFile(str(path), None if named else str(path.parent))
    try:
        document = tomllib.loads(file.read(_MAX_BYTES).decode())
    except (OSError, ValueError, RecursionError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise click.UsageError(f"{path}: {visible(reason)}") from None
    where, table = "lint", document
    if path.name == PYPROJECT:
        where, table = "tool.virt-dra.lint", _member(_member(document, "tool"), "virt-dra")
        if "lint" not in table:
            return None
    for key in table:
        if key != "lint":
            raise click.UsageError(f"{path}: {visible(key)}: unknown table{did_you_mean(key, ['lint'])}")
    try:
        configuration = LintConfiguration(str(path), LintTable.model_validate(table.get("lint", {})))
    except ValidationError as error:
        faults = [f"{path}: {where}.{fault}" for fault in _faults(error)]
        raise click.UsageError("\n".join(faults)) from None
    faults = [] if named else [f"{path}: {where}.{fault}" for fault in _strays(configuration)]
    if faults:
        raise click.UsageError("\n".join(faults))
    return configuration


def _strays(configuration: LintConfiguration) -> Iterator[str]:
    """What a configuration that nobody named may not name: whoever wrote the repository would choose what of the user's
    machine is read, rewritten by ``--fix``, or asked over a network."""
    table = configuration.table
    names = [(f"filename.{number}", name) for number, name in enumerate(table.filename)]
    names += [("address-keys", table.address_keys)] if table.address_keys is not None else []
    folder = configuration.folder.resolve()
    for key, name in names:
        try:
            allowed = "://" not in name and _is_plain(folder, (folder / name).resolve())
        except (OSError, ValueError, RuntimeError):  # a loop of links, or a name that no file can have
            allowed = False
        if not allowed:
            yield f"{key}: {visible(name)} isn't a file or folder beside this one; name it, or this file with --config"


def _is_plain(folder: Path, path: Path) -> bool:
    """True for a file or a folder inside of the folder, and for what isn't there."""
    return path.is_relative_to(folder) and (path.is_file() or path.is_dir() or not path.exists())


def nearest_configuration(start: Path) -> LintConfiguration:
    """The configuration that counts in a folder."""
    above = [start, *start.parents]
    root = next((number for number, folder in enumerate(above) if (folder / ".git").exists()), 0)
    for folder in above[: root + 1]:
        for name in (NAME, PYPROJECT):
            path = folder / name
            configuration = read_configuration(path, named=False) if path.exists() else None
            if configuration is not None:
                return configuration
    return LintConfiguration()


def _faults(error: ValidationError) -> Iterator[str]:
    keys = [_dashed(name) for name in LintTable.model_fields]
    for fault in error.errors():
        path = ".".join(map(str, fault["loc"]))
        if fault["type"] == "extra_forbidden":
            yield visible(f"{path}: unknown key{did_you_mean(path, keys)}")
        else:
            yield visible(f"{path}: {fault['msg'].removeprefix('Value error, ')}")


def _member(holder: Any, name: str) -> dict[str, Any]:
    value = holder.get(name) if isinstance(holder, dict) else None
    return value if isinstance(value, dict) else {}


def _load(context: click.Context, parameter: click.Parameter, value: str | None) -> LintConfiguration:
    if context.resilient_parsing:
        return LintConfiguration()
    configuration = nearest_configuration(Path.cwd()) if value is None else read_configuration(Path(value))
    if configuration is None:
        raise click.BadParameter(f"{value} has no table tool.virt-dra.lint")
    context.default_map = {**(context.default_map or {}), **configuration.defaults}
    return configuration


configuration_option = click.option(
    "--config", "configuration", metavar="FILE", is_eager=True, callback=_load,
    help=f"Options in TOML.  [default: {NAME} or {PYPROJECT}, up to the repository's root]",
)  # fmt: skip
