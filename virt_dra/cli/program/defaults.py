"""The user's own defaults of options: of ``VIRT_DRA_…`` in the environment, and of a file in TOML.

Programs that run in pods take none: they are configured by their arguments, and Kubernetes gives pods variables
that are called after Services.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from virt_dra.api.go_text import visible
from virt_dra.api.nearest import did_you_mean

GENERAL: Final = ("address-keys", "context", "kubeconfig", "kubevirt-gates", "kubevirt-version", "namespace")
"""Options that mean the same in every command."""
OF_COMMAND: Final = (*GENERAL, "output")
"""Options whose default can be of one command; the formats differ."""
IN_PODS: Final = frozenset(
    ("operator", "keeper", "webhook", "webhook-certificates", "report-server", "extender", "node-driver", "node-check")
)
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class OptionDefault:
    """``command``: "" for all; ``source``: the variable or file that it is from."""

    command: str
    option: str
    value: str | list[str]
    source: str


def config_file(environ: Mapping[str, str]) -> Path:
    """Where the file is, whether or not it exists (XDG Base Directory Specification)."""
    folder = Path(environ.get("XDG_CONFIG_HOME", ""))
    return (folder if folder.is_absolute() else Path(environ.get("HOME", "/")) / ".config") / "virt-dra" / "config.toml"


def read_defaults(commands: tuple[str, ...], environ: Mapping[str, str]) -> list[OptionDefault]:
    """All defaults, those that count more first: of variables before the file, of a command before all.

    Raises UsageError for a file that can't be read or has something else in it.
    """
    typed = tuple(name for name in commands if name not in IN_PODS)
    return [*_of_variables(typed, environ), *_of_file(config_file(environ), typed)]


def _of_variables(commands: tuple[str, ...], environ: Mapping[str, str]) -> Iterator[OptionDefault]:
    for command, options in (*((name, OF_COMMAND) for name in commands), ("", GENERAL)):
        for option in options:
            name = "_".join(("VIRT_DRA", *filter(None, (command,)), option)).upper().replace("-", "_")
            if value := environ.get(name):
                yield OptionDefault(command, option, value, name)


def _of_file(path: Path, commands: tuple[str, ...]) -> list[OptionDefault]:
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode()
        import tomllib  # here, since few have such a file

        document = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError, PermissionError):  # PermissionError: somebody else's home
        return []
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{path}: {visible(str(error))}") from None
    tables = {key: value for key, value in document.items() if isinstance(value, dict)}
    for key in tables:
        if key not in commands:
            hint = did_you_mean(key, commands)
            raise click.UsageError(f"{path}: [{visible(key)}] is no command that takes defaults{hint}")
    tables[""] = {key: value for key, value in document.items() if key not in tables}
    return [
        OptionDefault(command, key, _checked(path, command, key, value), str(path))
        for command, members in tables.items()
        for key, value in members.items()
    ]


def _checked(path: Path, command: str, key: str, value: Any) -> str | list[str]:
    options, where = (OF_COMMAND, f"{command}.") if command else (GENERAL, "")
    if key not in options:
        hint = did_you_mean(key, options) or f"; those are: {', '.join(options)}"
        raise click.UsageError(f"{path}: {where}{visible(key)} is no option that can have a default{hint}")
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        return value
    raise click.UsageError(f"{path}: {where}{key}: must be a text or a list of texts")


def default_map(name: str, command: click.Command, defaults: list[OptionDefault]) -> dict[str, Any]:
    """The values by click's names of the command's parameters. Options that the command doesn't have are left out."""
    parameters = {
        long.removeprefix("--"): parameter
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for long in parameter.opts
    }
    values: dict[str, Any] = {}
    for default in defaults:
        parameter = parameters.get(default.option)
        if parameter is not None and parameter.name is not None and default.command in ("", name):
            many = [default.value] if isinstance(default.value, str) else default.value
            values.setdefault(parameter.name, many if parameter.multiple else default.value)
    return values
