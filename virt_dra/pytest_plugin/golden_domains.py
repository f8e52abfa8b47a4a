"""Compares XML with a golden file by what it says, line by line in a normal form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from lxml import etree

from virt_dra.api.counting import counted
from virt_dra.cli.shared.console import visible_lines
from virt_dra.cluster.files import write_file
from virt_dra.pytest_plugin import UnusableInput

SHOWN_DIFFERENCE = 200
"""Lines of a difference that a message has."""
_UPDATE = "if the new XML is right: pytest --virt-dra-update"


def compare_with_golden(xml: str | bytes, path: str, *, update: bool) -> bool:
    """True if the file was written: with ``update``, where it is missing or says something else.

    Raises AssertionError for a difference or a missing file, and UnusableInput.
    """
    __tracebackhide__ = True
    made = parsed_xml(xml, "the XML to compare")
    lines, text = normal_lines(made), _text(path)
    if update:
        if text is not None and _says(text, lines):
            return False
        _write(made, path)
        return True
    if text is None:
        head = (f"{path}: no such golden file; {_UPDATE}", "the XML made here:")
        raise AssertionError(visible_lines("\n".join((*head, *_beginning(lines)))))
    if diff := difference(normal_lines(parsed_xml(text, path)), lines, path):
        raise AssertionError(visible_lines("\n".join((f"the XML differs from {path}; {_UPDATE}", *_beginning(diff)))))
    return False


def difference(golden: Sequence[str], made: Sequence[str], path: str) -> list[str]:
    """The unified diff of two normal forms; empty if they are equal."""
    return list(unified_diff(golden, made, path, "the XML made here", lineterm=""))


def normal_lines(root: etree._Element) -> list[str]:
    """The normal form: a line for each tag and text, indented, attributes sorted by name; white space between elements
    doesn't count.

    White space in a text that has something else counts, and so do prefixes of namespaces.
    """
    return list(_lines(root, {}, ""))


def _lines(element: etree._Element, above: dict[str | None, str], indent: str) -> Iterator[str]:
    spaces = {prefix: uri for prefix, uri in element.nsmap.items() if above.get(prefix) != uri}
    declared = {f"xmlns:{prefix}" if prefix else "xmlns": uri for prefix, uri in spaces.items()}
    attributes = {_name(element, str(name)): str(value) for name, value in element.attrib.items()} | declared
    name = f"{element.prefix}:{etree.QName(element).localname}" if element.prefix else etree.QName(element).localname
    tag = " ".join((name, *(f"{key}={quoteattr(attributes[key])}" for key in sorted(attributes))))
    inside = [_content(element.text)]
    for child in element:
        inside += ["\n".join(_lines(child, element.nsmap, f"{indent}  ")), _content(child.tail)]
    parts = [part for part in inside if part]
    if not parts:
        yield f"{indent}<{tag}/>"
    elif len(element) == 0:
        yield f"{indent}<{tag}>{parts[0]}</{name}>"
    else:
        yield f"{indent}<{tag}>"
        for part in parts:
            yield from part.split("\n") if part.lstrip(" ").startswith("<") else (f"{indent}  {part}",)
        yield f"{indent}</{name}>"


def _name(element: etree._Element, attribute: str) -> str:
    """The attribute's name with its prefix; ``xml`` is declared nowhere."""
    if not attribute.startswith("{"):
        return attribute
    space, _, local = attribute[1:].partition("}")
    return f"{min((prefix for prefix, uri in element.nsmap.items() if prefix and uri == space), default='xml')}:{local}"


def _content(text: str | None) -> str:
    """The text as it is written, on one line; empty for white space."""
    return escape(text, {"\n": "&#10;", "\r": "&#13;"}) if text and text.strip(" \t\r\n") else ""


def _says(text: bytes, lines: Sequence[str]) -> bool:
    """Whether an old golden file says the same. One that isn't XML is written anew."""
    try:
        return normal_lines(parsed_xml(text, "")) == list(lines)
    except UnusableInput:
        return False


def _beginning(lines: Sequence[str]) -> list[str]:
    left = len(lines) - SHOWN_DIFFERENCE
    return [*lines[:SHOWN_DIFFERENCE], f"and {counted(left, 'more line')}"] if left > 0 else list(lines)


def parsed_xml(xml: str | bytes, name: str) -> etree._Element:
    """The root element, without comments; no entity is expanded and nothing is loaded. Raises UnusableInput."""
    encoding = "utf-8" if isinstance(xml, str) else None  # a text's own declaration doesn't count any more
    parser = etree.XMLParser(
        encoding=encoding, resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(xml.encode() if isinstance(xml, str) else xml, parser)
    except UnicodeEncodeError as error:
        raise UnusableInput(f"{name}: position {error.start}: a character that XML can't hold") from None
    except etree.XMLSyntaxError as error:
        line, column = error.position
        raise UnusableInput(f"{name}: line {line}, column {column}: no well-formed XML: {error.msg}") from None
    if b"<!DOCTYPE" in etree.tostring(root.getroottree()):
        raise UnusableInput(f"{name}: has a document type declaration, which no libvirt domain has; remove it")
    return root


def _text(path: str) -> bytes | None:
    """The golden file; None if there is none. Raises UnusableInput."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unusable_file(path, error) from None


def _write(root: etree._Element, path: str) -> None:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_file(Path(path), etree.tostring(root, encoding="unicode") + "\n")
    except (OSError, ValueError) as error:
        raise _unusable_file(path, error) from None


def _unusable_file(path: str, error: OSError | ValueError) -> UnusableInput:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UnusableInput(f"golden file {path}: {reason}")
