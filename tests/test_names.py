"""Names that texts mention exist: modules, classes, functions and files, in docstrings, comments and documents.

What counts as a mention:

* a role such as ``:func:``: a name of the module itself, of its package, or an absolute one. A class may stand alone,
  as its name means one thing in the whole project (``test_words``);
* backticks: a dotted name that begins with a package or module of ours, or a word that must occur in code;
* a row ``module, module   text`` in the docstring of a package;
* a file or folder: from the root (``virt_dra/api/meta.py``), or in backticks as the end of a path (``meta.py``).

Files are read as text and not parsed, which takes two seconds instead of twenty.
"""

from __future__ import annotations

import builtins
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("virt_dra", "webhooks", "launcher", "node_driver", "devtools", "bench", "tests", "tools")
DOCSTRING = re.compile(r'"""(.*?)"""', re.DOTALL)
ROLE = re.compile(r":(mod|class|func|meth|attr|data|exc|obj):`(?:[^`<]*<)?~?([\w.]+)>?`")
CODE = re.compile(r"``([A-Za-z_][\w.]*?)(?:\(\))?``")
FROM_ROOT = re.compile(
    rf"(?<![\w./:@-])((?:{'|'.join(ROOMS)}|docs|examples|manifests|requirements)/[\w./*-]*[\w/])(?![\w{{…<$*])"
)
FILE = re.compile(r"`([\w./-]+\.py)`")
DEFINED = re.compile(r"^(?:async def|def|class) (\w+)|^(\w+)(?:: .+?)? = ", re.MULTILINE)
FUNCTION = re.compile(r"^(?:async )?def (\w+)", re.MULTILINE)
IMPORTED = re.compile(r"^ *(?:from [\w.]+ )?import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
MODULE_ROW = re.compile(r"^    ([a-z_0-9]+/?(?:, [a-z_0-9]+/?)*) {2,}\S", re.MULTILINE)
IN_MARKDOWN = re.compile(r"(?<!`)`([a-z_]\w*(?:\.\w+)*)(?:\(\))?`(?!`)")

FOREIGN = frozenset((
    "AsApproximateFloat64", "AsInt64", "MilliValue", "omitempty",  # Go
    "cRLSign", "digitalSignature", "keyCertSign",  # X.509
    "dra_manager_state", "leaderelection", "matchCondition", "matchLabelKeys", "pending_pods", "podGroup",  # Kubernetes
    "http_proxy", "sda", "vda", "vdb",  # Linux
    "cel.bind", "device.attributes.domain", "domain.memory.guest", "metadata.namespace", "tls.key",  # CEL, fields
    "immutables", "jsonpatch", "rapidyaml", "rerun",  # packages of Python that are not used, a word of pytest
))  # fmt: skip
"""Words of others that no code of ours has."""
EXAMPLES = re.compile(r"\b(always-on-direct-claim|pools|test_pools|isBlank|NodeInMaintenance|maintenance|[A-Z]{4,})\b")
"""Names in the worked examples of CONTRIBUTING, which nobody has added yet; NAME and the like stand for any name."""
DOCUMENTS = ("docs/architecture.md", "docs/decisions/", "CONTRIBUTING.md", "devtools/")
"""Documents about the code, in which single backticks are held to the same rule as double ones in Python. Others are
about Kubernetes' objects."""


@dataclass(frozen=True)
class Source:
    """A Python file."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def package(self) -> str:
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @cached_property
    def names(self) -> frozenset[str]:
        """The names at the top level, imported ones too."""
        defined = {name for groups in DEFINED.findall(self.text) for name in groups if name}
        imported = {name for groups in IMPORTED.findall(self.text) for name in re.findall(r"\w+", "".join(groups))}
        return frozenset(defined | imported)

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of its code: without docstrings, comments and what stands in backticks."""
        return frozenset(re.findall(r"\w+", re.sub(r"``[^`]*``|#.*", "", DOCSTRING.sub("", self.text))))


@cache
def _sources() -> dict[str, Source]:
    files = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
    sources = [Source(file, file.read_text(encoding="utf-8")) for file in files if file != Path(__file__)]
    return {source.name: source for source in sources}


@cache
def _classes() -> frozenset[str]:
    return frozenset(name for source in _sources().values() for name in source.names if name[:1].isupper())


@cache
def _functions() -> frozenset[str]:
    return frozenset(name for source in _sources().values() for name in FUNCTION.findall(source.text))


@cache
def _words() -> frozenset[str]:
    """The words of all code, and the names of files: cases have names, too."""
    stems = {Path(file).stem for file in _tracked()}
    return frozenset().union(dir(builtins), stems, FOREIGN, *(source.words for source in _sources().values()))


@cache
def _modules() -> dict[str, list[Source]]:
    """Modules by the last part of their names."""
    modules: dict[str, list[Source]] = {}
    for source in _sources().values():
        modules.setdefault(source.name.rpartition(".")[2], []).append(source)
    return modules


def _in_module(source: Source, parts: list[str]) -> bool:
    if not parts or f"{source.name}.{parts[0]}" in _sources():
        return not parts or _in_module(_sources()[f"{source.name}.{parts[0]}"], parts[1:])
    return parts[0] in source.names and all(part in _words() for part in parts[1:])


def _absolute(name: str) -> bool:
    parts = name.split(".")
    ends = [end for end in range(len(parts), 0, -1) if ".".join(parts[:end]) in _sources()]
    return bool(ends) and _in_module(_sources()[".".join(parts[: ends[0]])], parts[ends[0] :])


def _is_role_known(source: Source, role: str, target: str) -> bool:
    first, *rest = parts = target.removeprefix(".").split(".")
    if target.split(".")[0] in ROOMS:
        return _absolute(target)
    return (
        _absolute(f"{source.package}.{'.'.join(parts)}")
        or _in_module(source, parts)
        or first in sys.stdlib_module_names
        or hasattr(builtins, first)
        or (first in _classes() and all(part in _words() for part in rest))
        or (not rest and role in ("meth", "attr") and first in _words())  # may be inherited
    )


def _is_code_known(name: str) -> bool:
    first, *rest = name.split(".")
    if name in FOREIGN or (rest and first in sys.stdlib_module_names and first not in _modules()):
        return True
    if first in ROOMS and rest:
        return _absolute(name)
    if any(_in_module(source, rest) for source in _modules().get(first, ())):
        return True
    if first in _modules() and rest and rest[0] in _functions():
        return False
    return all(word in _words() or word.rstrip("0123456789") in _words() for word in (first, *rest))


@cache
def _tracked() -> frozenset[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    return frozenset(files)


@cache
def _places() -> frozenset[str]:
    """The tracked files and their folders."""
    return _tracked() | {str(parent) for file in _tracked() for parent in Path(file).parents}


def _missing_files(text: str) -> Iterator[str]:
    paths = {path.rstrip("/.") for path in FROM_ROOT.findall(text) if "*" not in path}
    ends = {path for path in FILE.findall(text) if not any(f"/{file}".endswith(f"/{path}") for file in _tracked())}
    yield from sorted(path for path in paths - _places() | ends if not EXAMPLES.search(path))


def _lines(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str]]]:
    for match in pattern.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match


@pytest.mark.parametrize(
    ("name", "exists"),
    [
        ("validation.verdict_on", True),
        ("validation.judge", False),
        ("answers.Evaluator", False),
        ("virt_dra.api.meta.of_kind", True),
        ("virt_dra.api.meta.of_sort", False),
        ("metadata.generation", True),
        ("device_resolution", False),
        ("device_status", True),
    ],
)
def test_a_name_is_looked_up(name: str, exists: bool) -> None:
    assert _is_code_known(name) == exists


def test_roles_name_what_exists() -> None:
    missing = [
        f"{source.path.relative_to(ROOT)}:{line}: {match[0]}"
        for source in _sources().values()
        if source.name != "tests.site.test_reference"  # docstrings as data
        for line, match in _lines(source.text, ROLE)
        if not _is_role_known(source, match[1], match[2])
    ]
    assert missing == []


def test_names_in_backticks_exist() -> None:
    missing = [
        f"{source.path.relative_to(ROOT)}: {name}"
        for source in _sources().values()
        for docstring in DOCSTRING.findall(source.text)
        for name in CODE.findall(docstring)
        if not _is_code_known(name)
    ]
    missing += [
        f"{file}: {name}"
        for file in sorted(_tracked())
        if file.startswith(DOCUMENTS) and file.endswith(".md")
        for name in IN_MARKDOWN.findall((ROOT / file).read_text(encoding="utf-8"))
        if not _is_code_known(name.removeprefix("virt_dra_webhook_").removesuffix("_total"))
        and not EXAMPLES.search(name)
    ]
    assert missing == []


def test_a_package_lists_modules_that_it_has() -> None:
    missing = [
        f"{source.name}: {name}"
        for source in _sources().values()
        if source.path.name == "__init__.py"
        for row in MODULE_ROW.findall("".join(DOCSTRING.findall(source.text)[:1]))
        for name in row.replace("/", "").split(", ")
        if not _in_module(source, [name])
    ]
    assert missing == []


def test_dotted_names_in_documents_exist() -> None:
    dotted = re.compile(rf"`((?:{'|'.join(ROOMS)})(?:\.\w+)+)`")
    missing = [
        f"{file}: {name}"
        for file in sorted(_tracked())
        if file.endswith(".md")
        for name in dotted.findall((ROOT / file).read_text(encoding="utf-8"))
        if not _absolute(name) and name not in _tracked()
    ]
    assert missing == []


def test_files_that_texts_name_exist() -> None:
    texts = [(file, (ROOT / file).read_text(encoding="utf-8")) for file in sorted(_tracked()) if file.endswith(".md")]
    texts += [
        (str(source.path.relative_to(ROOT)), docstring)
        for source in _sources().values()
        if not source.name.startswith("tests")
        for docstring in DOCSTRING.findall(source.text)
    ]
    assert [f"{file}: {path}" for file, text in texts for path in _missing_files(text)] == []
