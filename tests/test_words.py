"""The house speaks one language: one name means one thing, names are short, docstrings are sentences, folders can be
taken in."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PRODUCT = ("virt_dra", "webhooks", "launcher", "node_driver")

SHARED_NAMES: dict[str, str] = {}
"""Name -> why two modules may have it."""
LONGEST_NAME = {
    "virt_dra": 40,
    "webhooks": 40,
    "launcher": 40,
    "node_driver": 40,
    "devtools": 40,
    "bench": 40,
    "tests": 80,
}
FIELD_NAMES = {"preferred_termination_grace_period_seconds": "a field of KubeVirt's API"}
MOST_MODULES = 20

VAGUE_NAMES = frozenset({"each", "found", "known", "what", "one"})
VAGUE_IN_TESTS = {"each": 2, "found": 38, "known": 9, "one": 11, "what": 3}
"""How often tests may still bind them: lower it with each that gets a name of its own."""
TOLD = 11
"""Lines with tell or told: the mode ``tell`` of --unverified-callers."""


@dataclass(frozen=True)
class _Module:
    """What is judged of a file. ``identifiers``: of functions, classes, names and parameters; ``bindings``: variables,
    parameters and captures of patterns, once for each place that binds one; ``silent_constructors``: lines of
    classmethods ``of``."""

    file: str
    public_names: tuple[str, ...]
    identifiers: frozenset[str]
    bindings: Counter[str]
    docstrings: tuple[str, ...]
    silent_constructors: tuple[int, ...]


@cache
def _modules(room: str) -> tuple[_Module, ...]:
    """Each tree is walked once and forgotten: garbage collections that see all of them take longer than parsing."""
    return tuple(map(_module, sorted((ROOT / room).rglob("*.py"))))


def _module(file: Path) -> _Module:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    identifiers: set[str] = set()
    bindings: Counter[str] = Counter()
    docstrings: list[str] = []
    silent: list[int] = []
    for node in ast.walk(tree):
        match node:
            case ast.Name():
                identifiers.add(node.id)
                bindings[node.id] += isinstance(node.ctx, ast.Store)
            case ast.arg():
                identifiers.add(node.arg)
                bindings[node.arg] += 1
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bindings[name] += 1
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                identifiers.add(node.name)
                if node.name == "of" and any(getattr(of, "id", "") == "classmethod" for of in node.decorator_list):
                    silent.append(node.lineno)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            docstrings += filter(None, [ast.get_docstring(node)])
    return _Module(
        str(file.relative_to(ROOT)),
        tuple(_public_names(tree)),
        frozenset(identifiers),
        +bindings,
        tuple(docstrings),
        tuple(silent),
    )


def _public_names(tree: ast.Module) -> Iterator[str]:
    """The module's public classes and type aliases: names with a capital first letter that are no constants."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            name = node.name
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        else:
            continue
        if name[0].isupper() and (isinstance(node, ast.ClassDef) or not name.isupper()):
            yield name


def test_a_public_class_or_alias_name_means_one_thing() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for room in PRODUCT:
        for module in _modules(room):
            for name in module.public_names:
                homes[name].append(module.file)
    shared = {name: files for name, files in homes.items() if len(files) > 1}
    assert {name: files for name, files in shared.items() if name not in SHARED_NAMES} == {}
    assert SHARED_NAMES.keys() <= shared.keys(), "these names are no longer shared"


@pytest.mark.parametrize(
    ("room", "longest"),
    [
        pytest.param(*row, marks=pytest.mark.slow) if row[0] == "tests" else row for row in LONGEST_NAME.items()
    ],  # 4 s of reading
)
def test_identifiers_are_short(room: str, longest: int) -> None:
    long_names = {
        name
        for module in _modules(room)
        for name in module.identifiers
        if len(name) > longest and name not in FIELD_NAMES
    }
    assert long_names == set()


def test_variables_are_named_after_what_they_hold() -> None:
    """For an item or a result, the name of the thing: ``slice_``, ``refusals``."""
    vague = {
        module.file: names
        for room in (*PRODUCT, "devtools", "bench")
        for module in _modules(room)
        if (names := VAGUE_NAMES & module.bindings.keys())
    }
    assert vague == {}


@pytest.mark.slow  # 4 s of reading
def test_variables_of_tests_are_named_after_what_they_hold() -> None:
    vague = {name: sum(module.bindings[name] for module in _modules("tests")) for name in VAGUE_NAMES}
    assert {name: number for name, number in vague.items() if number > VAGUE_IN_TESTS.get(name, 0)} == {}


def test_a_constructor_says_what_it_makes_an_object_of() -> None:
    """``from_slices``, ``for_version``: ``of`` says nothing beside the name of the class."""
    silent = [
        f"{module.file}:{line}"
        for room in (*PRODUCT, "devtools")
        for module in _modules(room)
        for line in module.silent_constructors
    ]
    assert silent == []


def test_a_docstring_is_a_sentence_and_not_only_the_number_of_a_rule() -> None:
    only_rules = re.compile(r"(?:(?:AC?|C|E|K|L|KEP)-?\d[\w.-]*|and|see|to|[\s().,;:])+")
    found = [
        f"{module.file}: {text}"
        for room in PRODUCT
        for module in _modules(room)
        for text in module.docstrings
        if only_rules.fullmatch(text)
    ]
    assert found == []


def test_a_folder_can_be_taken_in_at_a_glance() -> None:
    modules: dict[str, int] = defaultdict(int)
    for room in PRODUCT:
        for module in _modules(room):
            path = Path(module.file)
            modules[str(path.parent)] += path.name != "__init__.py"
    assert {folder: number for folder, number in modules.items() if number > MOST_MODULES} == {}


def test_the_product_emits_reports_and_returns_rather_than_tells() -> None:
    word = re.compile(r"\b(tell|told)\b", re.IGNORECASE)
    lines = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for room in PRODUCT
        for file in sorted((ROOT / room).rglob("*.py"))
        for line in file.read_text(encoding="utf-8").splitlines()
        if word.search(line)
    ]
    assert len(lines) <= TOLD, lines
