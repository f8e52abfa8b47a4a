"""A library that isn't installed: the advice fits how virt-dra was installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from virt_dra.cli.shared.extras import IMAGE_PREFIX, MissingExtra, advice, required

ROOT = Path(__file__).parents[2]
CLONE = {"url": "file:///home/me/virt%20dra", "dir_info": {"editable": True}}
WHEEL = {"url": "file:///tmp/virt_dra-0.1.0-py3-none-any.whl", "archive_info": {}}
_COMMIT = {"vcs": "git", "requested_revision": "v1", "commit_id": "abc"}
GIT = {"url": "https://example.com/virt-dra.git", "vcs_info": _COMMIT}


@pytest.mark.parametrize(
    ("origin", "prefix", "told"),
    [
        (None, "/usr", "install it with: pip install 'virt-dra[driver]'"),
        (CLONE, "/usr", "install it with: pip install -e '/home/me/virt dra[driver]'"),
        (
            WHEEL,
            "/usr",
            "install it with: pip install 'virt-dra[driver] @ file:///tmp/virt_dra-0.1.0-py3-none-any.whl'",
        ),
        (GIT, "/usr", "install it with: pip install 'virt-dra[driver] @ git+https://example.com/virt-dra.git@v1'"),
        (
            {**WHEEL, "url": "file:///wheel/virt_dra-0.1.0-py3-none-any.whl"},
            IMAGE_PREFIX,
            "this image doesn't have it; elsewhere it is installed with: pip install 'virt-dra[driver]'",
        ),
    ],
    ids=["index", "clone", "wheel", "git", "image"],
)
def test_an_extra_is_spelled_for_how_it_was_installed(origin: dict[str, Any] | None, prefix: str, told: str) -> None:
    assert advice("driver", json.dumps(origin) if origin is not None else None, prefix) == told


def test_the_images_have_the_program_where_it_is_expected() -> None:
    assert f"ENV PATH={IMAGE_PREFIX}/bin:" in (ROOT / "Containerfile").read_text(encoding="utf-8")


def test_a_command_without_its_library_ends_as_for_bad_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kopf", None)
    said = pytest.raises(MissingExtra, match=r"^the operator needs kopf; .*\[operator\]")
    with said as ended, required("the operator needs kopf", "operator", "kopf"):
        import kopf  # noqa: F401
    assert ended.value.exit_code == 2
