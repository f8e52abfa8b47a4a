"""``make site`` builds everything or says what is broken: links, anchors, source files, pages in no menu, what a page
loads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from devtools.site.__main__ import build_site, main
from devtools.site.building import BuildFailed, build
from devtools.site.checking import problems
from devtools.site.contents import MenuSection
from devtools.site.reference import PAGES
from devtools.site.staging import BrokenPages, staged, write


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    for name, text in {
        "README.md": "# A project\n\nOf [some](docs/a.md) use.\n\n## More\n",
        "docs/README.md": "# Documentation\n\n| [a](a.md), [b.md](b.md) |\n",
        "docs/a.md": "# A\n\n[code](../code/main.py), [folder](../code), [b](b.md#part), [index](README.md)\n",
        "docs/b.md": "# B\n\n## Part\n",
        "code/main.py": "print(1)\n",
        "code/more/x.yaml": "a: 1\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


SECTIONS = (MenuSection("Pages", ("docs/a", "docs/b", "made")),)
MADE = {"made": lambda: "# Made\n"}


def test_links_to_source_files_lead_to_pages_with_them(repository: Path) -> None:
    source = staged(repository, MADE, SECTIONS)
    assert source.pages["docs/a"] == (
        "# A\n\n[code](../source/code/main.py.md), [folder](../source/code.md), [b](b.md#part), [index](../index.md)\n"
    )
    assert (
        source.pages["source/code/main.py"]
        == "---\norphan: true\n---\n\n# `code/main.py`\n\n```python\nprint(1)\n```\n"
    )
    assert source.pages["source/code"].endswith(
        "# `code`\n\n* [main.py](code/main.py.md)\n* [more/x.yaml](code/more/x.yaml.md)\n"
    )
    assert source.pages["index"] == (
        "# A project\n\nOf [some](docs/a.md) use.\n\n## Where to read on\n\n| [a](docs/a.md), [B](docs/b.md) |\n\n"
        "```{toctree}\n:hidden:\n:caption: Pages\n\n/docs/a\n/docs/b\n/made\n```\n"
    )


def test_all_broken_links_and_unlisted_pages_are_named_at_once(repository: Path) -> None:
    (repository / "docs" / "a.md").write_text(
        "# A\n\n[x](../code/gone.py) [y](../code/main.py#L1) ![z](z.svg) [a][b]\n\n[b]: ../code/main.py\n"
    )
    (repository / "docs" / "lost.md").write_text("# Lost\n")
    with pytest.raises(BrokenPages) as broken:
        staged(repository, MADE, (MenuSection("Pages", ("docs/a", "docs/b", "docs/c")),))
    assert sorted(str(broken.value).splitlines()) == [
        "docs/a.md: ../code/gone.py leads nowhere",
        "docs/a.md: ../code/main.py#L1: a source file has no anchors",
        "docs/a.md: link to ../code/main.py isn't written as [text](target)",
        "docs/a.md: no image z.svg",
        "docs/c.md: in the menu, and not there",
        "docs/lost.md: in no section of the menu",
        "made: in no section of the menu",
    ]


@pytest.mark.slow
def test_a_broken_anchor_fails_the_build(repository: Path, tmp_path: Path) -> None:
    (repository / "docs" / "b.md").write_text("# B\n\n## Other part\n")
    write(staged(repository, MADE, SECTIONS), repository, tmp_path / "source")
    with pytest.raises(BuildFailed) as failed:
        build(tmp_path / "source", tmp_path / "site")
    assert str(failed.value) == "docs/a.md:3: WARNING: local id not found in doc 'docs/b': 'part' [myst.xref_missing]"


def test_a_page_that_loads_something_or_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<html><head><link rel="stylesheet" href="https://fonts.example.com/a.css"><style>p '
        "{color: url(//b.example.com/c)}</style>"
        '</head><body><p id="here"></p><script src="gone.js"></script><a href="https://kubevirt.io">KubeVirt</a>'
        '<a href="#here">1</a><a href="#there">2</a><a href="x.html#y">3</a><a '
        'href="../x.html">4</a><img src="data:,x"></body></html>'
    )
    (tmp_path / "x.html").write_text("<html><body><p>x</p></body></html>")
    (tmp_path / "a.css").write_text("@import 'https://c.example.com/d.css'; p {background: url(x.png)}")
    (tmp_path / "b.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg"><script>1</script><image href="http://d.example.com/e"/></svg>'
    )
    assert sorted(problems(tmp_path)) == [
        "a.css: loads https://c.example.com/d.css",
        "b.svg: has a script or foreign objects",
        "b.svg: loads http://d.example.com/e",
        "index.html: #there: no such anchor",
        "index.html: href ../x.html leads nowhere",
        "index.html: loads //b.example.com/c",
        "index.html: loads https://fonts.example.com/a.css",
        "index.html: src gone.js leads nowhere",
        "index.html: x.html#y: no such anchor",
    ]


@pytest.mark.slow(seconds=60)
def test_the_site_of_this_repository_is_whole(tmp_path: Path) -> None:
    build_site(tmp_path / "site")
    built = {str(page.relative_to(tmp_path / "site")) for page in (tmp_path / "site").rglob("*.html")}
    assert {
        "index.html",
        "docs/guides/install.html",
        "docs/lint/no-address.html",
        *(f"{name}.html" for name in PAGES),
    } <= built
    assert (
        'href="reference/metrics.html"'
        in (tmp_path / "site" / "index.html").read_text(encoding="utf-8").partition("Where to read on<a")[2]
    )
    assert "source/tests/cli/test_full_disk.py.html" in built
    commands = (tmp_path / "site" / "reference" / "commands.html").read_text(encoding="utf-8")
    assert "Findings to report as warnings, unless --deny names them." in commands


def test_the_command_ends_with_what_is_broken(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("devtools.site.__main__.ROOT", repository)
    assert main([str(tmp_path / "site")]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "error: the site is not built; mend what is named above"
