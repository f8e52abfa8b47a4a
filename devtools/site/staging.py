"""The site's source: the repository's Markdown at its own paths, the generated pages, and a page for each source file
that one links to.

Links of Markdown stay as they are where they lead to another page. Sphinx checks those, anchors included; a link to a
file that doesn't exist is an error here.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Final
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from devtools.site.contents import INDEX, MENU, WITH_SITE, WITHOUT_SITE, MenuSection
from devtools.site.markdown import code_block

SOURCES: Final = "source"
"""The folder of the pages with source files."""
FRONT: Final = "index"
_LANGUAGES: Final = {
    ".py": "python",
    ".yaml": "yaml",
    ".sh": "sh",
    ".go": "go",
    ".toml": "toml",
    ".json": "json",
    ".csv": "text",
}
_IMAGES: Final = frozenset((".svg", ".png"))
_LARGEST: Final = 200_000
"""Characters of a source file on a page of its own."""


class BrokenPages(ValueError):
    """Links that lead nowhere, or pages in no menu; each on a line of its own."""


@dataclass
class Staged:
    """``pages``: each page's name -> its Markdown. ``images``: files that are copied as they are. ``problems``: what
    can't be built."""

    pages: dict[str, str] = field(default_factory=dict)
    images: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


def staged(root: Path, generated: Mapping[str, Callable[[], str]], menu: Iterable[MenuSection] = MENU) -> Staged:
    """The whole source of the site. Raises :class:`BrokenPages` with everything that is wrong."""
    sections = tuple(menu)
    return _Staging(root, sections, _tracked(root)).all_pages(generated)


def write(source: Staged, root: Path, target: Path) -> None:
    """Writes the pages below ``target``, which is empty or new."""
    for name, text in source.pages.items():
        page = target / f"{name}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    for image in source.images:
        copy = target / image
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((root / image).read_bytes())


def links_of(text: str) -> tuple[set[str], set[str]]:
    """The targets of links, and of images, of a page of Markdown, as they are written there."""
    links, images = set[str](), set[str]()
    for token in _inline(MarkdownIt("commonmark").enable("table").parse(text)):
        if token.type == "link_open":
            links.add(unquote(str(token.attrs["href"])))
        elif token.type == "image":
            images.add(unquote(str(token.attrs["src"])))
    return links, images


def _inline(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _inline(token.children or ())


def _tracked(root: Path) -> frozenset[str]:
    """The repository's files, those included that are new and not ignored."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    return frozenset(name for name in names.stdout.decode().split("\0") if name and (root / name).is_file())


class _Staging:
    def __init__(self, root: Path, menu: tuple[MenuSection, ...], files: frozenset[str]) -> None:
        self._root, self._menu, self._files = root, menu, files
        self._folders = frozenset(
            str(parent) for name in files for parent in PurePosixPath(name).parents if str(parent) != "."
        )
        self._result = Staged()
        self._own: dict[str, str] = {}
        """The pages' text before links to source files are changed."""

    def all_pages(self, generated: Mapping[str, Callable[[], str]]) -> Staged:
        problems = self._result.problems
        listed = [(section, self._pages_of(section)) for section in self._menu]
        for name in (page for _, pages in listed for page in pages):
            if name in generated:
                self._own[name] = generated[name]()
            elif f"{name}.md" in self._files:
                self._own[name] = (self._root / f"{name}.md").read_text(encoding="utf-8")
            else:
                problems.append(f"{name}.md: in the menu, and not there")
        unlisted = [name for name in generated if name not in self._own]
        unlisted += [
            name
            for name in self._files
            if name.startswith("docs/") and name.endswith(".md") and name[:-3] not in self._own
        ]
        problems += [f"{name}: in no section of the menu" for name in sorted(unlisted) if name != f"{INDEX}.md"]
        self._own[FRONT] = self._front(listed)
        for section, pages in listed:
            if section.below is not None and section.below in self._own:
                self._own[section.below] += f"\n{_toctree(section.below, section.title, pages)}"
        for name, text in self._own.items():
            self._result.pages[name] = self._relinked(name, text)
        if problems:
            raise BrokenPages("\n".join(problems))
        return self._result

    def _pages_of(self, section: MenuSection) -> tuple[str, ...]:
        pages: list[str] = []
        for name in section.pages:
            if not name.endswith("/*"):
                pages.append(name)
                continue
            folder = name.removesuffix("*")
            pages_there = (file[:-3] for file in self._files if file.startswith(folder) and file.endswith(".md"))
            pages += sorted(
                page for page in pages_there if page != section.below and "/" not in page.removeprefix(folder)
            )
        return tuple(pages)

    def _front(self, listed: Iterable[tuple[MenuSection, tuple[str, ...]]]) -> str:
        """The README's introduction, the index of the documents, and the menu."""
        introduction = (self._root / "README.md").read_text(encoding="utf-8").split("\n## ", 1)[0].strip()
        index = (
            (self._root / f"{INDEX}.md")
            .read_text(encoding="utf-8")
            .partition("\n")[2]
            .lstrip("\n")
            .replace(WITHOUT_SITE, WITH_SITE)
        )
        index = re.sub(r"\[([^\]]+\.md)\]\(([^)#]+\.md)\)", self._titled, _moved(index, "docs"))
        menus = [_toctree(FRONT, section.title, pages) for section, pages in listed if section.below is None]
        return "\n".join([introduction, "\n## Where to read on\n", index, *menus])

    def _titled(self, link: re.Match[str]) -> str:
        """A link to a page that is called after its file, by the page's title."""
        title = re.search(r"^# (.+)$", self._own.get(link[2][:-3], ""), re.MULTILINE)
        return f"[{title[1]}]({link[2]})" if title is not None else link[0]

    def _relinked(self, page: str, text: str) -> str:
        """The text with links to source files leading to their pages."""
        links, images = links_of(text)
        changed: dict[str, str] = {}
        for link in links:
            new = self._new_target(page, link)
            if new is not None:
                changed[link] = new
        for image in images:
            path = _resolved(page, image)
            if path not in self._files or PurePosixPath(path).suffix not in _IMAGES:
                self._result.problems.append(f"{page}.md: no image {image}")
            else:
                self._result.images.add(path)
        for old, new in changed.items():
            text = text.replace(f"]({old})", f"]({new})")
        left = links_of(text)[0] & (changed.keys() - set(changed.values()))
        self._result.problems += [f"{page}.md: link to {old} isn't written as [text](target)" for old in sorted(left)]
        return text

    def _new_target(self, page: str, link: str) -> str | None:
        """Where a link has to lead instead; None: it is right, or Sphinx will say that it isn't."""
        if re.match(r"[a-z]+:|#", link):
            return None
        target, _, anchor = link.partition("#")
        path = _resolved(page, target)
        if path.endswith(".md") and (path[:-3] in self._own or path == f"{INDEX}.md"):
            return None if path != f"{INDEX}.md" else _relative(page, f"{FRONT}.md")
        if path in self._folders and f"{path}/README" in self._own:
            return _relative(page, f"{path}/README.md")
        if anchor:
            self._result.problems.append(f"{page}.md: {link}: a source file has no anchors")
        elif path in self._files or path in self._folders:
            return _relative(page, f"{self._source_page(path)}.md")
        else:
            self._result.problems.append(f"{page}.md: {link} leads nowhere")
        return None

    def _source_page(self, path: str) -> str:
        """The page of a file or folder; made if it is new."""
        name = f"{SOURCES}/{path}"
        if name in self._result.pages:
            return name
        title = f"---\norphan: true\n---\n\n# `{path}`\n\n"
        if path in self._folders:
            self._result.pages[name] = title  # before its files: they may be folders
            files = sorted(file for file in self._files if file.startswith(f"{path}/") and _is_text(file))
            lines = [
                f"* [{file.removeprefix(path + '/')}]({_relative(name, self._target_of(file))})\n" for file in files
            ]
            self._result.pages[name] = title + "".join(lines)
        else:
            text = (self._root / path).read_text(encoding="utf-8")
            language = _LANGUAGES.get(PurePosixPath(path).suffix, "text")
            shown = (
                code_block(text, language)
                if len(text) <= _LARGEST
                else f"{len(text)} characters, which are not shown here.\n"
            )
            self._result.pages[name] = title + shown
        return name

    def _target_of(self, file: str) -> str:
        return file if file.endswith(".md") and file[:-3] in self._own else f"{self._source_page(file)}.md"


def _is_text(file: str) -> bool:
    return PurePosixPath(file).suffix in {*_LANGUAGES, ".md", ".txt"}


def _resolved(page: str, target: str) -> str:
    """The path from the repository's root that a link on a page leads to."""
    return normpath(str(PurePosixPath(page).parent / target))


def _relative(page: str, path: str) -> str:
    return relpath(path, str(PurePosixPath(page).parent))


def _moved(text: str, folder: str) -> str:
    """Text of a page of ``folder`` with links for a page at the root."""

    def moved(link: re.Match[str]) -> str:
        target = link[1] if re.match(r"[a-z]+:|#", link[1]) else normpath(f"{folder}/{link[1]}")
        return f"]({target})"

    return re.sub(r"\]\(([^)\s]+)\)", moved, text)


def _toctree(page: str, title: str, pages: Iterable[str]) -> str:
    entries = "\n".join(f"/{name}" for name in pages)
    return f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{entries}\n```\n"
