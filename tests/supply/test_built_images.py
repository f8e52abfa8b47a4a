"""How images are built here: what goes into them, what of this machine stays out, and how their archives are read."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from devtools.containers.building import pip_configuration, pip_settings, sources
from devtools.containers.caching import archives, copied, key, require
from devtools.containers.oci import ImageArchive, ImageSizes, InstalledPackage, NoImage, debian_packages
from devtools.release import ReleaseError, image_bill, write_image_bills

STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Source: glibc (2.41-1)
Version: 2.41-12+deb13u5
Description: GNU C Library
 Shared libraries

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1

Package: base-files
Status: install ok installed
Architecture: amd64
Version: 13.8
"""


def layer(**files: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as made:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            made.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def archive(path: Path, *layers: bytes, **config: Any) -> ImageArchive:
    blobs: dict[str, bytes] = {}

    def stored(content: bytes) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        blobs[digest] = content
        return {"digest": digest, "size": len(content)}

    manifest = {
        "config": stored(json.dumps({"architecture": "amd64", "config": config}).encode()),
        "layers": [stored(gzip.compress(layer)) for layer in layers],
    }
    index = json.dumps({"manifests": [stored(json.dumps(manifest).encode())]})
    with tarfile.open(path, "w") as made:
        for name, content in {
            "index.json": index.encode(),
            **{f"blobs/{blob.replace(':', '/')}": blobs[blob] for blob in blobs},
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return ImageArchive(path)


def test_a_file_is_what_the_last_layer_left_of_it(tmp_path: Path) -> None:
    first = layer(**{"a": "1", "b/c": "2", "d/e": "3", "d/f": "4"})
    second = layer(**{"a": "5", "b/.wh.c": "", "d/.wh..wh..opq": "", "d/g": "6"})
    image = archive(tmp_path / "image.tar", first, second)
    assert image.files(lambda name: True) == {"a": b"5", "d/g": b"6"}
    assert {"b/c", "d/e"} <= image.names()
    assert image.sizes().uncompressed == len(first) + len(second)


def test_what_a_container_runs_is_as_kubernetes_has_it(tmp_path: Path) -> None:
    image = archive(tmp_path / "image.tar", Entrypoint=["virt-dra"], Cmd=["--help"], User="65532:65532")
    assert (image.user, image.architecture, image.sizes()) == (
        "65532:65532",
        "amd64",
        ImageSizes(image.sizes().compressed, 0),
    )
    assert image.argv() == ("virt-dra", "--help")
    assert image.argv(arguments=("operator",)) == ("virt-dra", "operator")
    assert image.argv(("sh",)) == ("sh",)
    assert image.argv(("sh",), ("-c", "x")) == ("sh", "-c", "x")


def test_a_file_that_is_no_image_is_named(tmp_path: Path) -> None:
    path = tmp_path / "no.tar"
    path.write_text("x")
    with pytest.raises(NoImage, match=f"^{path} is no OCI archive of one image: "):
        ImageArchive(path)


def test_installed_packages_are_read() -> None:
    libc = InstalledPackage("libc6", "2.41-12+deb13u5", "amd64", "glibc")
    assert debian_packages(STATUS) == (InstalledPackage("base-files", "13.8", "amd64"), libc)


def test_a_bill_of_an_image_has_both_kinds_of_packages(tmp_path: Path) -> None:
    metadata = "opt/virt-dra/lib/python3.13/site-packages/{}.dist-info/METADATA"
    files = {
        "usr/lib/os-release": 'NAME="Debian"\nVERSION_ID="13"\n',
        "var/lib/dpkg/status": STATUS,
        metadata.format("Yaml_rs-0.1"): "Name: Yaml_rs\nVersion: 0.1\n",
        metadata.format("virt_dra-1"): "Name: virt-dra\nVersion: 1\n",
    }
    image = archive(tmp_path / "image.tar", layer(**files))
    python = {
        "bomFormat": "CycloneDX",
        "metadata": {"component": {}},
        "components": [{"name": "yaml-rs", "version": "0.1"}],
    }
    document = json.loads(image_bill(image, "virt-dra", python))
    assert document["metadata"]["component"]["type"] == "container"
    assert document["metadata"]["component"]["hashes"] == [
        {"alg": "SHA-256", "content": image.digest.removeprefix("sha256:")}
    ]
    assert [component["name"] for component in document["components"]] == ["yaml-rs", "base-files", "libc6"]
    assert document["components"][2] == {
        "type": "library",
        "name": "libc6",
        "version": "2.41-12+deb13u5",
        "purl": "pkg:deb/debian/libc6@2.41-12%2Bdeb13u5?arch=amd64&distro=debian-13",
        "bom-ref": "pkg:deb/debian/libc6@2.41-12%2Bdeb13u5?arch=amd64&distro=debian-13",
        "properties": [{"name": "debian:source", "value": "glibc"}],
    }
    with pytest.raises(ReleaseError, match=r"its Python packages aren't those of requirements/image\.txt: yaml-rs$"):
        image_bill(image, "virt-dra", {**python, "components": [{"name": "yaml-rs", "version": "0.2"}]})


def test_a_missing_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="No such file"):
        write_image_bills(tmp_path, tmp_path, "HEAD", tmp_path, {"virt-dra": tmp_path / "virt-dra.tar"})


def test_pip_finds_packages_in_a_build_where_it_does_here() -> None:
    listed = [
        ":env:.index-url='https://b.example.com/simple'", "global.index-url='https://a.example.com/simple'",
        "global.cert='/etc/ca.crt'", "global.extra-index-url='https://c.example.com\\nhttps://d.example.com'",
        ":env:.find-links='/wheels'", "user.timeout='9'",
    ]  # fmt: skip
    settings = pip_settings(listed)
    assert settings == {
        "index-url": "https://b.example.com/simple", "cert": "/etc/ca.crt", "timeout": "9",
        "extra-index-url": "https://c.example.com\nhttps://d.example.com",
    }  # fmt: skip
    assert pip_configuration(settings, "/etc/pip.crt") == (
        "[global]\nextra-index-url = https://c.example.com https://d.example.com\nindex-url "
        "= https://b.example.com/simple\ntimeout = 9\n"
        "cert = /etc/pip.crt\n"
    )
    assert pip_configuration({}, "") == "[global]\n"


def test_the_base_has_debians_own_sources() -> None:
    assert sources("trixie") == (
        "deb http://deb.debian.org/debian trixie main",
        "deb http://deb.debian.org/debian trixie-updates main",
        "deb http://deb.debian.org/debian-security trixie-security main",
    )


def test_the_name_of_a_content_changes_with_what_is_copied_and_with_nothing_else(tmp_path: Path) -> None:
    text = "FROM x AS base\n# COPY no\nCOPY a b ./\nCOPY --from=base /c /c\n"
    assert copied(text) == ("a", "b")
    (tmp_path / "Containerfile").write_text(text)
    (tmp_path / "devtools" / "containers").mkdir(parents=True)
    (tmp_path / "devtools" / "containers" / "building.py").write_text("")
    (tmp_path / "a").write_text("1")
    (tmp_path / "b" / "__pycache__").mkdir(parents=True)
    (tmp_path / "b" / "c").write_text("2")
    before = key(tmp_path)
    (tmp_path / "b" / "__pycache__" / "x.pyc").write_text("3")
    (tmp_path / "d").write_text("4")
    assert key(tmp_path) == before
    (tmp_path / "b" / "c").write_text("5")
    assert key(tmp_path) != before


@pytest.mark.images
@pytest.mark.slow
def test_an_image_has_nothing_of_the_machine_that_built_it() -> None:
    for name, path in require().items():
        image = ImageArchive(path)
        assert not {
            name
            for name in image.names()
            if name.startswith(("etc/pip", "src/", "run/secrets", "root/.c", "root/.pip"))
        }, name
        apt = image.files(lambda path: path.startswith(("etc/apt/sources.list", "etc/apt/apt.conf.d/9")))
        assert {path: content.decode().split("\n\n") for path, content in apt.items()} == {
            "etc/apt/sources.list": [*sources("trixie")[:-1], f"{sources('trixie')[-1]}\n"]
        }
    assert archives() == require()
