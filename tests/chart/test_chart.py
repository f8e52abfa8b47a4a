"""The Helm chart: it is made of the manifests, and what it renders is what ``virt-dra install`` applies."""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from devtools.chart.files import CHART, generated, present, semantic
from devtools.go_tools import go_tool
from virt_dra.cli.install.command import command as install
from virt_dra.installation.plan import PARTS, ObjectKey

Json = dict[str, Any]
Objects = Mapping[ObjectKey, Json]

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
BESIDE, STANDALONE = "beside-kubevirt", "standalone"

# A value of the chart; the options of install that say the same.
SAME: Sequence[tuple[str, Json, tuple[str, ...]]] = [
    (BESIDE, {"image": "registry.example.com:5000/virt-dra:1"}, ("--image", "registry.example.com:5000/virt-dra:1")),
    (BESIDE, {"image": f"virt-dra@sha256:{'0' * 64}"}, ("--image", f"virt-dra@sha256:{'0' * 64}")),
    (BESIDE, {"namespace": "gpu-vms"}, ("--own-namespace", "gpu-vms")),
    (BESIDE, {"namespace": "0123"}, ("--own-namespace", "0123")),
    (BESIDE, {"certManager": True}, ("--cert-manager",)),
    (BESIDE, {"clientCA": CERTIFICATE}, ("--client-ca", "CA")),
    (BESIDE, {"apiServerCIDRs": ["10.0.0.0/28"]}, ("--api-server-cidr", "10.0.0.0/28")),
    (
        BESIDE,
        {"apiServerCIDRs": ["10.0.0.0/28", "2001:db8::/64"]},
        ("--api-server-cidr", "10.0.0.0/28", "--api-server-cidr", "2001:db8::/64"),
    ),
    (
        BESIDE,
        {"operator": {"arguments": ["--log-level=debug", "--spread"]}},
        ("--operator-argument=--log-level=debug", "--operator-argument=--spread"),
    ),
    (BESIDE, {"webhook": {"arguments": ["--log-level=debug"]}}, ("--webhook-argument=--log-level=debug",)),
    (STANDALONE, {}, ()),
    (STANDALONE, {"launcherImage": "registry/launcher"}, ("--launcher-image", "registry/launcher")),
    (STANDALONE, {"vmNamespaceLabel": "example.com/vms"}, ("--vm-namespace-label", "example.com/vms")),
    (
        STANDALONE,
        {"launcherPullSecrets": ["a", "b.c"]},
        ("--launcher-pull-secret", "a", "--launcher-pull-secret", "b.c"),
    ),
    (STANDALONE, {"launcherPriority": 1000000000}, ("--launcher-priority", "1000000000")),
    (STANDALONE, {"launcherPriority": -5}, ("--launcher-priority", "-5")),
    (
        STANDALONE,
        # What the policy of launcher pods follows; with characters that YAML, JSON, CEL or a template may take amiss.
        {
            "operator": {
                "arguments": [
                    "--launcher-image=registry/first",
                    "--launcher-argument=--log=a 'b' \"c\" <&> \\ {{ .Values }} # é: -",
                    "--launcher-image=registry/last:1",
                    "--kubevirt-gates=A=true, Sidecar",
                ]
            }
        },
        (
            "--operator-argument=--launcher-image=registry/first",
            "--operator-argument=--launcher-argument=--log=a 'b' \"c\" <&> \\ {{ .Values }} # é: -",
            "--operator-argument=--launcher-image=registry/last:1",
            "--operator-argument=--kubevirt-gates=A=true, Sidecar",
        ),
    ),
    *(
        (
            STANDALONE,
            {"operator": {"arguments": [f"--kubevirt-gates={gates}"]}},
            (f"--operator-argument=--kubevirt-gates={gates}",),
        )
        for gates in ("Sidecar=TRUE", "Sidecar=true,Sidecar=false", " Sidecar = true ", "Sidecar=", "SidecarX=true")
    ),
    (
        BESIDE,
        {"monitoring": {"enabled": True}, "runbooksURL": "https://docs.example.com/runbooks/"},
        ("--monitoring", "--runbooks-url", "https://docs.example.com/runbooks/"),
    ),
    *((BESIDE, {name: {"enabled": True}}, (f"--{name}",)) for name in PARTS),
]


HELM_4, HELM_3 = "helm", "helm3"


def helm(*arguments: str, release: str = HELM_4) -> subprocess.CompletedProcess[str]:
    return subprocess.run([go_tool(release, "helm"), *arguments], capture_output=True, text=True, check=False)


def rendered(values: Json, *arguments: str, release: str = HELM_4) -> str:
    answer = subprocess.run(
        [go_tool(release, "helm"), "template", "virt-dra", CHART, "--values", "-", *arguments],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def objects(text: str) -> Objects:
    return {ObjectKey.from_object(obj): obj for obj in yaml.load_all(text, yaml.CSafeLoader) if obj}


@cache
def installed(*arguments: str) -> Objects:
    """What ``virt-dra install`` with these options would apply."""
    with tempfile.NamedTemporaryFile("w", suffix=".crt") as authorities:
        authorities.write(CERTIFICATE)
        authorities.flush()
        options = [authorities.name if argument == "CA" else argument for argument in arguments]
        result = CliRunner().invoke(install, [*options, "--dry-run"])
    assert result.exit_code == 0, result.output
    return objects(result.stdout)


def test_the_files_are_those_that_the_manifests_make() -> None:
    wanted, there = generated(), present()
    assert there.keys() == wanted.keys()
    stale = [name for name in wanted if there[name] != wanted[name]]
    assert stale == [], f"run python -m devtools.chart: {', '.join(stale)}"


def test_every_option_that_changes_objects_has_a_value() -> None:
    said = {option.partition("=")[0] for _, _, options in SAME for option in options if option.startswith("--")}
    about_the_cluster = {"--dry-run", "--wait", "--timeout", "--kubeconfig", "--context", "--output"}
    options = {
        parameter.opts[-1] if parameter.opts[-1].startswith("--") else parameter.opts[0]
        for parameter in install.params
        if isinstance(parameter, click.Option)
    }
    assert options - about_the_cluster == said | {"--overlay"}


@pytest.mark.parametrize(
    ("python", "semantic_version"),
    [("0.1.0", "0.1.0"), ("0.2.0.dev0", "0.2.0-dev.0"), ("1.0.0rc1", "1.0.0-rc.1"), ("1.0.0a2", "1.0.0-a.2")],
)
def test_versions_are_written_as_helm_wants_them(python: str, semantic_version: str) -> None:
    assert semantic(python) == semantic_version


@pytest.mark.go
@pytest.mark.parametrize("release", [HELM_4, HELM_3])
def test_helm_finds_nothing_wrong(release: str) -> None:
    for values in ({}, {"overlay": STANDALONE}, {name: {"enabled": True} for name in PARTS}):
        arguments = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
        answer = helm("lint", "--strict", str(CHART), *arguments, release=release)
        assert (answer.returncode, "[ERROR]" in answer.stdout, "[WARNING]" in answer.stdout) == (0, False, False), (
            answer.stdout + answer.stderr
        )


@pytest.mark.go
def test_without_values_it_is_what_install_applies() -> None:
    assert objects(rendered({})) == installed()


CLUSTER = ("--kube-version", "1.37.0")
"""Helm 3 takes a cluster for 1.20 where its build doesn't say otherwise."""


@pytest.mark.go
@pytest.mark.parametrize("overlay", [BESIDE, STANDALONE])
def test_helm_3_renders_the_same(overlay: str) -> None:
    """Whatever values are given: those that the overlay has, one by one and all together."""
    cases = [values for of, values, _ in SAME if of == overlay]
    everything: Json = {}
    for values in cases:
        everything |= values
    for values in ({}, *cases, everything):
        chosen = {"overlay": overlay, **values}
        assert objects(rendered(chosen, *CLUSTER, release=HELM_3)) == objects(rendered(chosen, *CLUSTER)), values


@pytest.mark.go
@pytest.mark.parametrize(("wrong", "message"), [("oeprator=1", "oeprator"), ("overlay=both", "overlay")])
def test_helm_3_refuses_values_as_helm_4_does(wrong: str, message: str) -> None:
    for release in (HELM_4, HELM_3):
        answer = helm("template", str(CHART), *CLUSTER, "--set", wrong, release=release)
        assert (answer.returncode, message in answer.stderr) == (1, True), answer.stderr


@pytest.mark.go
@pytest.mark.parametrize(("overlay", "values", "options"), SAME, ids=[str(values)[:60] for _, values, _ in SAME])
def test_a_value_gives_what_its_option_gives(overlay: str, values: Json, options: tuple[str, ...]) -> None:
    assert objects(rendered({"overlay": overlay, **values})) == installed("--overlay", overlay, *options)


@pytest.mark.go
@pytest.mark.parametrize("seed", range(8))
def test_values_go_together_as_options_do(seed: int) -> None:
    chance = random.Random(seed)
    overlay = chance.choice([BESIDE, STANDALONE])
    fitting = [case for case in SAME if case[0] in (BESIDE, overlay)]
    values: Json = {"overlay": overlay}
    options: list[str] = ["--overlay", overlay]
    for _, more, said in chance.sample(fitting, 6):
        if values.keys().isdisjoint(more):  # one option twice isn't the question
            values |= more
            options += said
    assert objects(rendered(values)) == installed(*options), values


@pytest.mark.go
def test_the_release_is_in_its_own_namespace_and_never_in_the_clusters() -> None:
    elsewhere = {key: obj for key, obj in installed("--own-namespace", "gpu").items() if str(key) != "Namespace gpu"}
    assert objects(rendered({}, "--namespace", "gpu")) == elsewhere
    assert objects(rendered({}, "--namespace", "kube-system")) == installed()
    assert objects(rendered({"namespace": "gpu"}, "--namespace", "releases")) == installed("--own-namespace", "gpu")


@pytest.mark.go
def test_rendered_twice_it_is_the_same_and_no_hook_waits_for_helm() -> None:
    values = {"overlay": STANDALONE, **{name: {"enabled": True} for name in PARTS}}
    text = rendered(values)
    assert rendered(values) == text
    hooks = {"helm.sh/hook", "argocd.argoproj.io/hook"}
    annotated = {key: set(obj["metadata"].get("annotations", {})) for key, obj in objects(text).items()}
    assert {key for key, names in annotated.items() if names & hooks} == set()
    kept = {
        key.name
        for key, obj in objects(text).items()
        if "helm.sh/resource-policy" in obj["metadata"].get("annotations", {})
    }
    assert kept == {"virtualmachines.kubevirt.io", "virtualmachineinstances.kubevirt.io"}


@pytest.mark.go
def test_crds_can_be_left_to_others() -> None:
    values = {name: {"enabled": True} for name in PARTS}
    without = objects(rendered({**values, "crds": False}))
    everything = objects(rendered(values))
    assert without == {key: obj for key, obj in everything.items() if key.kind != "CustomResourceDefinition"}
    assert len(without) < len(everything)


@pytest.mark.go
def test_pods_are_sized_and_placed_by_values() -> None:
    placed: Json = {
        "resources": {"requests": {"cpu": "1"}, "limits": None},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
    }
    names = ["operator", "webhook", "certificates", *PARTS]
    workloads = {
        key.name.removeprefix("virt-dra-"): obj for key, obj in installed(*(f"--{name}" for name in PARTS)).items()
        if key.kind in ("Deployment", "DaemonSet")
    }  # fmt: skip
    values: Json = {
        name: {**placed, **({"enabled": True} if name in PARTS else {})} for name in names if name in workloads
    }
    values["operator"]["replicas"] = 0
    values["imagePullSecrets"] = [{"name": "registry"}]
    given = objects(rendered(values))
    for name, obj in workloads.items():
        spec = given[ObjectKey.from_object(obj)]["spec"]
        pod, plain = spec["template"]["spec"], obj["spec"]["template"]["spec"]
        (container,), (plain_container,) = pod["containers"], plain["containers"]
        requests = plain_container["resources"]["requests"] | {"cpu": "1"}
        assert pod == {
            **plain,
            "nodeSelector": {**plain.get("nodeSelector", {}), "disk": "fast"},
            "tolerations": placed["tolerations"],
            "imagePullSecrets": [{"name": "registry"}],
            "containers": [{**plain_container, "resources": {"requests": requests}}],
        }
        assert container["resources"] == {"requests": requests}
        assert spec.get("replicas") == (0 if name == "operator" else obj["spec"].get("replicas"))


@pytest.mark.go
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"oeprator": {}}, "additional properties 'oeprator' not allowed"),
        ({"overlay": "both"}, "/overlay"),
        ({"image": "registry/virt dra"}, "/image"),
        ({"namespace": "Upper"}, "/namespace"),
        ({"namespace": "kube-system"}, "kube-system belongs to the cluster"),
        ({"operator": {"arguments": ["--log-levle=debug"]}}, "/operator/arguments/0"),
        ({"operator": {"arguments": ["--no-election=x"]}}, "/operator/arguments/0"),
        ({"webhook": {"arguments": ["--spread"]}}, "/webhook/arguments/0"),
        ({"clientCA": "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n"}, "/clientCA"),
        ({"clientCA": "ca.crt"}, "/clientCA"),
        ({"apiServerCIDRs": ["10.0.0.1"]}, "/apiServerCIDRs/0"),
        ({"launcherPriority": 5}, "launcherPriority goes with overlay=standalone"),
        ({"runbooksURL": "https://docs.example.com"}, "runbooksURL goes with monitoring.enabled"),
        ({"monitoring": {"enabled": True}, "runbooksURL": "docs"}, "/runbooksURL"),
        ({"vmNamespaceLabel": "a/b"}, "vmNamespaceLabel goes with overlay=standalone"),
        ({"overlay": STANDALONE, "launcherPullSecrets": ["A"]}, "/launcherPullSecrets/0"),
        ({"certificates": {"replicas": 2}}, "additional properties 'replicas' not allowed"),
    ],
    ids=str,
)
def test_what_install_refuses_is_refused(values: Json, message: str) -> None:
    answer = subprocess.run(
        [go_tool("helm", "helm"), "template", CHART, "--values", "-"],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode != 0, message in answer.stderr) == (True, True), answer.stderr


@pytest.mark.go
def test_it_says_what_it_has_installed() -> None:
    answer = helm(
        "install", "virt-dra", str(CHART), "--dry-run=client", "--set", "overlay=standalone,report.enabled=true"
    )
    assert answer.returncode == 0, answer.stderr
    image = f"virt-dra:{version('virt-dra')}"
    assert answer.stdout.partition("NOTES:\n")[2].splitlines() == [
        f"virt-dra {version('virt-dra')} (standalone) is in the namespace virt-dra.",
        "",
        "Do its pods run?",
        "  kubectl -n virt-dra get pods",
        "Is the cluster ready for VMs with claims, and what to do if not?",
        "  virt-dra doctor",
        "",
        f"No image is chosen: the pods start only on nodes that have {image} already.",
        "",
        "The report starts once there is a Secret virt-dra-report-tls in this namespace.",
        "",
        "helm uninstall leaves the definitions of VirtualMachines, with all VMs.",
    ]
