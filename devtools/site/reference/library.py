"""The library: every public name of the public modules with its signature and docstring, read from their source."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Final

from devtools.site.markdown import code, code_block

MODULES: Final = MappingProxyType(
    {
        "launcher": "domain XML of a VMI",
        "webhooks.vmi": "KubeVirt's admission of VMIs",
        "webhooks.lint": "the lint",
        "virt_dra.allocator": "devices for claims on a node",
        "virt_dra.cel": "selectors and derived attributes",
        "virt_dra.simulator.embedded": "VMs through all hand-overs, as `virt-dra run` does",
        "virt_dra.simulator.control_plane": "all control loops on a cluster",
        "virt_dra.simulator.virtual_time": "ten minutes in a moment",
        "virt_dra.simulator.agents.driver": "a DRA driver to try things with",
        "virt_dra.simulator.agents.kubelet": "a kubelet to try drivers with",
        "virt_dra.simulator.scenario.reading": "scenarios from files",
        "virt_dra.simulator.scenario.player": "scenarios played",
        "virt_dra.simulator.experiment.description": "descriptions of experiments",
        "virt_dra.simulator.experiment.building": "experiments from descriptions",
        "virt_dra.simulator.experiment.trace": "experiments from traces",
        "virt_dra.simulator.experiment.engine": "arrivals and policies, simulated",
        "virt_dra.simulator.experiment.what_if": "what a change would do to a cluster's VMs",
        "virt_dra.simulator.experiment.measures": "what a simulation measures",
    }
)
"""Public modules -> what they are for."""
_INTRODUCTION: Final = """\
# Library

Made of the source. These modules are for other programs; everything else may change without notice. The
guides have examples: [library](../docs/guides/library.md), [allocator](../docs/guides/allocator.md),
[drivers](../docs/guides/driver-authors.md). Rules such as A-7.1 are those of the
[specifications](../docs/README.md).
"""
WIDE: Final = 110
_ROLE: Final = re.compile(r":(?:[a-z]+:)?[a-z]+:`(?:[^`<]*<)?[~.]*([^`>]+)>?`")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class PublicName:
    """``node``: its definition; ``text``: its docstring, or that below a constant."""

    name: str
    node: ast.stmt
    text: str


def public_names(module: ModuleType) -> list[PublicName]:
    """The names of ``__all__``, or all that the module defines, without ``_``; in that order.

    Raises LookupError for a name without a definition.
    """
    listed: Sequence[str] | None = getattr(module, "__all__", None)
    own = _definitions(module)
    if listed is None:
        listed = [name for name in own if not name.startswith("_")]
    return [own[name] if name in own else _imported(module, name) for name in listed]


def library_page() -> str:
    parts = [_INTRODUCTION]
    for name, purpose in MODULES.items():
        module = importlib.import_module(name)
        parts += [f"## {name}: {purpose}\n", as_markdown(inspect.getdoc(module) or "")]
        for entry in public_names(module):
            parts += [
                f"### {name}.{entry.name}\n",
                code_block(_signature(entry.node), "python"),
                as_markdown(entry.text),
            ]
            if isinstance(entry.node, ast.ClassDef):
                parts += _members(entry.node)
    return "\n".join(parts)


def as_markdown(docstring: str) -> str:
    """A docstring as Markdown: roles and double backticks become code, indented blocks below ``::`` or on their own
    code blocks."""
    text = inspect.cleandoc(docstring)
    parts: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        if paragraph.startswith("    "):
            block = textwrap.dedent(paragraph)
            if parts and parts[-1].startswith("```"):  # the next paragraph of the same example
                block = parts.pop().removeprefix("```python\n").removesuffix("```\n") + "\n" + block
            parts.append(code_block(block, "python"))
        elif paragraph.startswith(">>>"):
            parts.append(code_block(paragraph, "pycon"))
        else:
            spoken = _ROLE.sub(lambda role: f"`{role[1].rpartition('.')[2]}`", paragraph.replace("``", "`"))
            parts.append(_outside_code(re.sub(r"::$", ":", spoken)) + "\n")
    return "\n".join(parts)


def _outside_code(text: str) -> str:
    """Escapes what Markdown or HTML would read into the words around code; lists stay lists."""
    return "".join(
        part if part.startswith("`") else re.sub(r"([<>\[\]{}|$~_\\])", r"\\\1", part)
        for part in re.split(r"(`[^`]*`)", text)
    )


def _definitions(module: ModuleType) -> dict[str, PublicName]:
    if module.__file__ is None:
        raise LookupError(f"{module.__name__} has no source file")
    names: dict[str, PublicName] = {}
    body = ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body
    for node, below in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, _Function | ast.ClassDef):
            names[node.name] = PublicName(node.name, node, ast.get_docstring(node) or "")
        elif (target := _assigned(node)) is not None:
            names[target] = PublicName(target, node, _string(below))
    return names


def _imported(module: ModuleType, name: str) -> PublicName:
    """The definition of a name that a package takes from one of its modules, which may take it from another."""
    path = Path(module.__file__ or "")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if (
            isinstance(node, ast.ImportFrom)
            and node.module is not None
            and any((alias.asname or alias.name) == name for alias in node.names)
        ):
            source = importlib.import_module(node.module)
            return _definitions(source).get(name) or _imported(source, name)
    raise LookupError(f"{module.__name__} has no {name}")


def _assigned(node: ast.stmt) -> str | None:
    target = (
        node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
    )
    return target.id if isinstance(target, ast.Name) else None


def _string(node: ast.stmt | None) -> str:
    constant = node.value if isinstance(node, ast.Expr) else None
    return constant.value if isinstance(constant, ast.Constant) and isinstance(constant.value, str) else ""


def _signature(node: ast.stmt) -> str:
    if isinstance(node, _Function):
        return _call(node)
    if isinstance(node, ast.ClassDef):
        head = f"class {node.name}({', '.join(map(ast.unparse, node.bases))})" if node.bases else f"class {node.name}"
        return "\n".join([head, *(f"    {ast.unparse(field)}" for field in _fields(node))])
    written = ast.unparse(node)
    return written if len(written) <= WIDE else f"{written.partition(' = ')[0]} = ..."


def _call(node: _Function) -> str:
    start = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    arguments = ast.unparse(node.args)
    line = f"{start} {node.name}({arguments}){result}"
    if len(line) <= WIDE:
        return line
    return "\n".join((f"{start} {node.name}(", *(f"    {argument}," for argument in _listed(arguments)), f"){result}"))


def _listed(arguments: str) -> Iterator[str]:
    """Arguments one by one: divided at commas outside of brackets and strings."""
    depth, start, quote = 0, 0, ""
    for place, character in enumerate(arguments):
        if quote or character in "\"'":
            quote = "" if character == quote else quote or character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            yield arguments[start:place].strip()
            start = place + 1
    yield arguments[start:].strip()


def _fields(node: ast.ClassDef) -> Iterator[ast.stmt]:
    for statement in node.body:
        name = _assigned(statement)
        if name is not None and not name.startswith("_") and isinstance(statement, ast.AnnAssign):
            yield statement


def _members(node: ast.ClassDef) -> Iterator[str]:
    """What an object of the class offers: methods and properties, and fields with a docstring of their own."""
    lines: list[str] = []
    for statement, below in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(statement, _Function) and not statement.name.startswith("_"):
            text, shown = ast.get_docstring(statement) or "", _method(statement)
        elif (name := _assigned(statement)) is not None and not name.startswith("_") and _string(below):
            text, shown = _string(below), name
        else:
            continue
        spoken = as_markdown(text).strip()
        lines.append(
            textwrap.indent(f"{code(shown)}{': ' if spoken else ''}{spoken}", "  ").replace("  ", "* ", 1) + "\n"
        )
    if lines:
        yield "\n".join(lines)


def _method(node: _Function) -> str:
    """``name(arguments) -> result``; of a property the name and type only."""
    result = ast.unparse(node.returns) if node.returns is not None else ""
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    if decorators & {"property", "cached_property"}:
        return f"{node.name}: {result}"
    arguments = ast.parse(f"def f({ast.unparse(node.args)}): ...").body[0]
    assert isinstance(arguments, ast.FunctionDef)
    if "staticmethod" not in decorators:
        arguments.args.args = arguments.args.args[1:]
    return f"{node.name}({ast.unparse(arguments.args)})" + (f" -> {result}" if result and result != "None" else "")
