"""What is read of a drive before and after it is erased (D-63)."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from node_driver.host.disk_sample import SAMPLE, digests

BLANK = ["blank"] * 3
TEXT = b"a tenant's"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="a namespace without blocks"),
        pytest.param(b"\0", id="less than a sample"),
        pytest.param(b"\xff" * SAMPLE, id="one sample"),
        pytest.param(b"\0" * (3 * SAMPLE + 1), id="more than three"),
    ],
)
def test_zeros_and_ones_are_blank(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "disk").write_bytes(content)
    assert digests(str(tmp_path / "disk")) == BLANK


def test_the_beginning_the_middle_and_the_end_are_read(tmp_path: Path) -> None:
    size = 8 * SAMPLE
    for part, offset in enumerate((0, size // 2 - 1 - len(TEXT), size - len(TEXT))):
        content = bytearray(size)
        content[offset : offset + len(TEXT)] = TEXT
        (tmp_path / "disk").write_bytes(content)
        said = digests(str(tmp_path / "disk"))
        start = (0, size // 2 - SAMPLE, size - SAMPLE)[part]
        digest = hashlib.sha256(content[start : start + SAMPLE]).hexdigest()
        assert said == [*BLANK[:part], digest, *BLANK[part + 1 :]]


def test_ones_and_zeros_together_are_not_blank(tmp_path: Path) -> None:
    content = b"\0" * (SAMPLE - 1) + b"\xff"
    (tmp_path / "disk").write_bytes(content)
    assert digests(str(tmp_path / "disk")) == [hashlib.sha256(content).hexdigest()] * 3
