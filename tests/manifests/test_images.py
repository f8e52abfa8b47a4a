"""The Containerfile builds what the manifests run: extras that exist, entry points that exist, users that the pods
name."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path, PurePosixPath

import click
import pytest

from devtools.locks import EXTRAS_OF
from launcher.hook.entry import main as hook
from virt_dra.api.integration import standalone
from virt_dra.cli.main import cli
from virt_dra.installation.kustomize import split_image
from virt_dra.installation.plan import BESIDE_KUBEVIRT, STANDALONE, Choices, Overlay, packaged, planned

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]


def stages() -> dict[str, list[tuple[str, str]]]:
    """Stage -> its instructions, those of the stages that it stands on included."""
    text = re.sub(r"\\\n", " ", (ROOT / "Containerfile").read_text())
    by_stage: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            base, _, name = rest.partition(" AS ")
            current = list(by_stage.get(base, []))
            by_stage[name] = current
        current.append((instruction, rest.strip()))
    return by_stage


def last(stage: str, instruction: str) -> str:
    return [rest for name, rest in stages()[stage] if name == instruction][-1]


@pytest.mark.parametrize(
    ("stage", "extras", "entry_point"),
    [
        ("virt-dra", {"operator", "webhook", "driver"}, "virt-dra"),
        ("virt-dra-launcher", {"libvirt"}, "virt-dra-launcher"),
    ],
)
def test_images_have_the_extras_and_entry_points_of_the_project(stage: str, extras: set[str], entry_point: str) -> None:
    (lock,) = set(re.findall(r"--requirement requirements/(\w+)\.txt", last(f"build-{stage}", "RUN")))
    assert set(EXTRAS_OF[lock]) == extras
    assert extras <= PROJECT["optional-dependencies"].keys()
    assert f"--from=build-{stage} " in last(stage, "COPY")
    assert last(stage, "ENTRYPOINT") == f'["{entry_point}"]'
    assert entry_point in PROJECT["scripts"]


def test_the_annotation_of_the_guide_runs_the_hook_sidecar_of_the_image() -> None:
    guide = (ROOT / "docs" / "guides" / "hook-sidecar.md").read_text()
    (annotation,) = re.findall(r"hooks.kubevirt.io/hookSidecars: '(.*)'", guide)
    (sidecar,) = json.loads(annotation)
    assert sidecar["image"] == f"registry.example.com/virt-dra:{VERSION}"
    (command,) = sidecar["command"]
    assert PROJECT["scripts"][command] == "launcher.hook.entry:main"
    assert hook.make_context(command, sidecar["args"]).params["pci_placement"] == "pcie-root"


def test_what_is_copied_into_the_build_is_there() -> None:
    by_stage = [path for name, rest in stages()["build"] if name == "COPY" for path in shlex.split(rest)[:-1]]
    assert {
        "requirements",
        "pyproject.toml",
        "virt_dra",
        "webhooks",
        "launcher",
        "node_driver",
        "manifests",
        "docs/lint",
        "docs/reasons",
        "docs/runbooks",
        "docs/schemas",
        PROJECT["readme"],
        *PROJECT["license-files"],
    } == set(by_stage)
    assert all((ROOT / path).exists() for path in by_stage)
    ignored = (ROOT / ".containerignore").read_text().split()
    kept = {pattern.removeprefix("!") for pattern in ignored if pattern.startswith("!")}
    out = [
        path for path in by_stage if path not in kept and any(PurePosixPath(path).match(pattern) for pattern in ignored)
    ]
    assert out == []


def test_what_the_package_links_to_is_copied_into_the_build() -> None:
    links = {path.resolve().relative_to(ROOT) for path in (ROOT / "virt_dra").rglob("*") if path.is_symlink()}
    assert links == {
        Path("manifests"),
        Path("docs/lint"),
        Path("docs/reasons"),
        Path("docs/runbooks"),
        Path("docs/schemas"),
    }
    assert {str(path) for path in links} <= {
        path for name, rest in stages()["build"] if name == "COPY" for path in shlex.split(rest)[:-1]
    }


def test_images_stand_on_a_base_that_a_digest_fixes() -> None:
    text = (ROOT / "Containerfile").read_text()
    bases = [line.split()[1] for line in text.splitlines() if line.startswith("FROM ")]
    foreign = [base for base in bases if base not in stages()]
    assert len(foreign) == 1
    assert re.fullmatch(r"[a-z./]+/debian:[\d.]+-slim@sha256:[0-9a-f]{64}", foreign[0])
    assert not re.search(
        r"^(ADD|COPY --from=(?!build-))|curl |wget |--trusted|--index|--allow-unauth", text, re.MULTILINE
    )


def test_images_have_no_installer() -> None:
    """No pip in the environments that are by_stage, and none by apt in the stages that end as images."""
    for stage in ("virt-dra", "virt-dra-launcher"):
        commands = " ".join(rest for name, rest in stages()[stage] if name == "RUN")
        assert not re.search(r"python3?-(pip|venv|dev)|\bgcc\b|pip", commands)
    assert "venv --without-pip /opt/virt-dra" in last("build", "RUN") + " ".join(rest for _, rest in stages()["build"])


def test_the_driver_finds_the_program_that_erases_drives() -> None:
    commands = " ".join(rest for name, rest in stages()["virt-dra"] if name == "RUN")
    assert "nvme-cli" in commands.split()
    assert "/usr/sbin" in last("virt-dra", "ENV").split()[0].split(":")


def test_a_wheel_has_every_file_of_the_manifests() -> None:
    package = ROOT / "virt_dra"
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["virt_dra"]
    packed = {path.resolve() for pattern in patterns for path in package.glob(pattern)}
    files = {path.resolve() for path in (ROOT / "manifests").rglob("*") if path.is_file()}
    assert files
    assert files - packed == set()


def test_images_do_not_run_as_root_and_as_the_user_that_the_pods_name() -> None:
    for overlay in (BESIDE_KUBEVIRT, STANDALONE):
        for deployment in (obj for obj in planned(Choices(overlay), packaged()) if obj["kind"] == "Deployment"):
            security = deployment["spec"]["template"]["spec"]["securityContext"]
            assert last("virt-dra", "USER") == f"{security['runAsUser']}:{security['runAsGroup']}"
    assert last("virt-dra-launcher", "USER") == "107:107"  # K-4.3
    assert standalone.COMMAND[0] in PROJECT["scripts"]


@pytest.mark.parametrize("overlay", [BESIDE_KUBEVIRT, STANDALONE])
@pytest.mark.parametrize("cert_manager", [False, True])
def test_the_pods_are_started_with_arguments_that_the_commands_take(
    overlay: Overlay, cert_manager: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {}
    for deployment in (
        obj for obj in planned(Choices(overlay, cert_manager=cert_manager), packaged()) if obj["kind"] == "Deployment"
    ):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        for variable in container["env"]:
            monkeypatch.setenv(variable["name"], "virt-dra")
        name, *arguments = container["args"]
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        options[name] = command.make_context(name, list(arguments)).params
        ports = {port["containerPort"] for port in container.get("ports", ())}
        assert {value for option, value in options[name].items() if option.endswith("port")} == ports
        assert split_image(container["image"]) == ("virt-dra", f":{VERSION}")
    assert options["operator"]["mode"] == overlay
    assert options["webhook"]["live"] is True
    if overlay == STANDALONE:
        assert split_image(options["operator"]["launcher_image"]) == ("virt-dra-launcher", f":{VERSION}")
    assert ("webhook-certificates" in options) is not cert_manager
    (tls,) = [volume for volume in _volumes(Choices(overlay, cert_manager=cert_manager)) if "secret" in volume]
    mounts = [
        mount["mountPath"]
        for mount in _mounts(Choices(overlay, cert_manager=cert_manager))
        if mount["name"] == tls["name"]
    ]
    assert mounts == [str(options["webhook"]["tls_dir"])]


def _mounts(choices: Choices) -> list[dict[str, str]]:
    deployments = (obj for obj in planned(choices, packaged()) if obj["kind"] == "Deployment")
    return [
        mount
        for deployment in deployments
        for mount in deployment["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    ]


def _volumes(choices: Choices) -> list[dict[str, object]]:
    deployments = (obj for obj in planned(choices, packaged()) if obj["kind"] == "Deployment")
    return [volume for deployment in deployments for volume in deployment["spec"]["template"]["spec"]["volumes"]]
