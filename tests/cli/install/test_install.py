"""``virt-dra install --dry-run``, and where installing is refused, without a cluster."""

from __future__ import annotations

import difflib
import json
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.conftest import Golden
from virt_dra.cli.main import cli
from virt_dra.installation.kustomize import build
from virt_dra.installation.launcher_limits import LAUNCHER_POLICY
from virt_dra.installation.plan import (
    BESIDE_KUBEVIRT,
    MONITORING,
    PARTS,
    STANDALONE,
    Choices,
    ObjectKey,
    OptionalPart,
    Overlay,
    installed_in,
    is_ours,
    packaged,
    planned,
    possible_namespaces,
    stale,
)
from virt_dra.installation.refusals import refusals
from virt_dra.installation.survey import KUBEVIRTS, VMS, Survey

OVERLAYS: tuple[Overlay, ...] = (BESIDE_KUBEVIRT, STANDALONE)


def changes(one: str, other: str, context: int) -> str:
    """What differs, without numbers of lines, which change with every manifest."""
    lines = difflib.unified_diff(one.splitlines(True), other.splitlines(True), n=context)
    return "".join("@@\n" if line.startswith("@@") else line for line in lines)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["install", *arguments])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_dry_run_prints_all_objects_in_the_order_of_applying(overlay: str, golden: Golden) -> None:
    result = run("--overlay", overlay, "--dry-run")
    assert result.exit_code == 0
    golden(
        f"install_{overlay}.txt",
        "".join(f"{ObjectKey.from_object(obj)}\n" for obj in yaml.load_all(result.stdout, yaml.CSafeLoader)),
    )


def test_images_that_nobody_named_are_said_to_be_unpublished() -> None:
    """With --dry-run on standard error, so that standard output can be applied."""
    tag = version("virt-dra")

    def warning(images: str, options: str) -> str:
        return (
            "warning: no image of virt-dra is published: the pods start only on "
            f"nodes that have {images} already. Build what the "
            "Containerfile of its source says, push it where your nodes can pull "
            'it (docs/guides/install.md, "Images"), and name it '
            f"with {options}\n"
        )

    both = warning(f"virt-dra:{tag} and virt-dra-launcher:{tag}", "--image and --launcher-image")
    assert run("--dry-run").stderr == warning(f"virt-dra:{tag}", "--image")
    assert run("--dry-run", "--overlay", "standalone").stderr == both
    assert run("--dry-run", "--overlay", "standalone", "--image", "r.io/v:1").stderr == warning(
        f"virt-dra-launcher:{tag}", "--launcher-image"
    )
    assert run("--dry-run", "--image", "registry.example.com/virt-dra:1").stderr == ""


def test_every_choice_changes_only_what_it_names(golden: Golden) -> None:
    plain = run("--dry-run", "--overlay", "standalone", "--cert-manager").stdout
    images = (
        "--image",
        "registry.example.com:5000/team/virt-dra@sha256:" + "0" * 64,
        "--launcher-image",
        "registry.example.com/launcher:7",
    )
    chosen = run("--dry-run", "--overlay", "standalone", "--cert-manager", "--own-namespace", "devices", *images).stdout
    golden("install_choices.diff", changes(plain, chosen, 2))


def test_cert_manager_changes_only_where_the_certificate_comes_from(golden: Golden) -> None:
    plain, chosen = run("--dry-run").stdout, run("--dry-run", "--cert-manager").stdout
    golden("install_cert_manager.diff", changes(plain, chosen, 3))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_arguments_of_ones_own_come_after_those_of_the_manifests(overlay: str) -> None:
    plain = list(yaml.load_all(run("--dry-run", "--overlay", overlay).stdout, yaml.CSafeLoader))
    own = (
        "--webhook-argument=--log-level=debug",
        "--operator-argument=--spread",
        "--operator-argument=--grace=5",
    )
    chosen = list(yaml.load_all(run("--dry-run", "--overlay", overlay, *own).stdout, yaml.CSafeLoader))
    added = {"virt-dra-webhook": ["--log-level=debug"], "virt-dra-operator": ["--spread", "--grace=5"]}
    for before, after in zip(plain, chosen, strict=True):
        if before["kind"] == "Deployment":
            before["spec"]["template"]["spec"]["containers"][0]["args"] += added.get(before["metadata"]["name"], [])
        assert after == before


def test_the_policy_of_launcher_pods_follows_the_operators_arguments() -> None:
    """It would else refuse every pod of a VM: of arguments that are given twice the last counts, of gates the last that
    says so."""

    def variables(*own: str) -> dict[str, str]:
        printed = yaml.load_all(
            run("--dry-run", "--overlay", "standalone", *(f"--operator-argument={text}" for text in own)).stdout,
            yaml.CSafeLoader,
        )
        policy = next(
            obj
            for obj in printed
            if obj["metadata"]["name"] == LAUNCHER_POLICY and obj["kind"] == "ValidatingAdmissionPolicy"
        )
        expressions = {variable["name"]: variable["expression"] for variable in policy["spec"]["variables"]}
        return {name: expressions[name] for name in ("image", "command", "sidecars")}

    command = '["virt-dra-launcher", "--uri=qemu:///session", "--daemon=virtqemud"'
    assert variables() == {"image": '"virt-dra-launcher:0.1.0"', "command": f"{command}]", "sidecars": "false"}
    own = variables(
        "--launcher-image=a/b:1", "--launcher-argument=--uri=x", "--kubevirt-gates=GPUsWithDRA=true,Sidecar=true"
    )
    assert own == {"image": '"a/b:1"', "command": f'{command}, "--uri=x"]', "sidecars": "true"}
    assert variables("--kubevirt-gates=Sidecar=true", "--kubevirt-gates=Sidecar=false")["sidecars"] == "false"
    assert variables("--kubevirt-gates=Sidecar")["sidecars"] == "true"


def test_a_label_of_namespaces_for_vms_is_in_both_policies_of_what_is_created() -> None:
    printed = yaml.load_all(
        run("--dry-run", "--overlay", "standalone", "--vm-namespace-label", "example.com/vms").stdout, yaml.CSafeLoader
    )
    expressions = {
        obj["metadata"]["name"]: variable["expression"]
        for obj in printed
        for variable in obj.get("spec", {}).get("variables", ())
        if variable["name"] == "forVirtualMachines"
    }
    wanted = '"example.com/vms" in namespaceObject.metadata.?labels.orValue({})'
    assert expressions == dict.fromkeys(("virt-dra-operator-instances", "virt-dra-operator-launchers"), wanted)


def test_what_admission_gives_to_launcher_pods_is_in_their_policy() -> None:
    options = ("--launcher-pull-secret", "a", "--launcher-pull-secret", "b.c", "--launcher-priority", "-7")
    printed = yaml.load_all(run("--dry-run", "--overlay", "standalone", *options).stdout, yaml.CSafeLoader)
    variables = {
        variable["name"]: variable["expression"]
        for obj in printed
        if obj["metadata"]["name"] == LAUNCHER_POLICY and obj["kind"] == "ValidatingAdmissionPolicy"
        for variable in obj["spec"]["variables"]
    }
    assert (variables["pullSecrets"], variables["highestPriority"]) == ('["a", "b.c"]', "-7")


def test_json_is_a_list_of_the_same_objects() -> None:
    printed = json.loads(run("--dry-run", "-o", "json").stdout)
    assert (printed["apiVersion"], printed["kind"]) == ("v1", "List")
    assert printed["items"] == list(yaml.load_all(run("--dry-run").stdout, yaml.CSafeLoader))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--own-namespace", "kube-system"),
            "'kube-system' belongs to the cluster; give virt-dra a namespace of its own",
        ),
        (("--own-namespace", "A"), "'A' can't be the name of a namespace"),
        (("--image", "a b"), "'a b': write an image as in registry.example.com/virt-dra:0.1.0"),
        (("--image", ""), "'': write an image as in registry.example.com/virt-dra:0.1.0"),
        (
            ("--webhook-argument", "--log-level", "--webhook-argument", "debug"),
            "'debug': write an option with its value in one, as in --webhook-argument=--log-level=debug",
        ),
        (
            ("--webhook-argument=--writes-metadata=gpu.nvidia.com",),
            "virt-dra webhook: No such option '--writes-metadata'",
        ),
        (("--operator-argument=--wait-image=busybox",), "virt-dra operator: No such option '--wait-image'"),
        (("--overlay", "beside"), "'beside' is not one of 'beside-kubevirt', 'standalone'"),
        (("--dry-run", "-o", "text"), "--dry-run prints yaml or json"),
        (("--timeout", "-1"), "-1.0 is not in the range"),
        (("--vm-namespace-label", "a b"), "'a b' can't be the key of a label"),
        (("--vm-namespace-label", "vms"), "--vm-namespace-label goes with --overlay standalone"),
        (("--runbooks-url", "https://docs.example.com"), "--runbooks-url goes with --monitoring"),
        (("--monitoring", "--runbooks-url", "runbooks"), "'runbooks': write it as https://docs.example.com/runbooks"),
        (("--monitoring", "--runbooks-url", "https://a b"), "'https://a b': write it as https://docs.example.com/"),
        (("--launcher-priority", "5"), "--launcher-priority goes with --overlay standalone"),
        (("--launcher-pull-secret", "s"), "--launcher-pull-secret goes with --overlay standalone"),
        (("--launcher-pull-secret", "a b"), "'a b' can't be the name of a Secret"),
    ],
)
def test_bad_usage_is_refused(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


OURS = {"labels": {"app.kubernetes.io/part-of": "virt-dra"}}
GOOD = {"resource.k8s.io/v1"}


def definition(*, ours: bool) -> dict[str, object]:
    return {"metadata": OURS if ours else {}}


def seen(**changes: object) -> Survey:
    there: dict[str, object] = {"api_versions": frozenset(GOOD), "crds": {}, "deployments": (), "there": {}}
    return Survey(**{**there, **changes})  # type: ignore[arg-type] # values of several types, by name


KUBEVIRT = {KUBEVIRTS: definition(ours=False), VMS[0]: definition(ours=False), VMS[1]: definition(ours=False)}
OWN_VMS = {VMS[0]: definition(ours=True), VMS[1]: definition(ours=True)}


@pytest.mark.parametrize(
    ("survey", "choices", "expected"),
    [
        (seen(crds=KUBEVIRT), Choices(), ()),
        (seen(), Choices(STANDALONE), ()),
        (seen(crds=OWN_VMS), Choices(STANDALONE), ()),
        (
            seen(api_versions=frozenset(), crds=KUBEVIRT),
            Choices(),
            ("the cluster doesn't serve resource.k8s.io/v1: virt-dra needs Kubernetes 1.34 or newer",),
        ),
        (
            seen(crds=KUBEVIRT),
            Choices(STANDALONE),
            (
                "KubeVirt is on this cluster (kubevirts.kubevirt.io, "
                "virtualmachineinstances.kubevirt.io, virtualmachines.kubevirt.io), "
                "and the overlay standalone would replace its CRDs: use --overlay beside-kubevirt",
            ),
        ),
        (
            seen(),
            Choices(),
            (
                "KubeVirt is not on this cluster (there is no kubevirts.kubevirt.io): "
                "install KubeVirt first, or use --overlay standalone",
            ),
        ),
        (
            seen(crds=OWN_VMS),
            Choices(),
            (
                "KubeVirt is not on this cluster (there is no kubevirts.kubevirt.io), "
                "but virt-dra's own CRDs of VirtualMachines are "
                "(remove them "
                "with: virt-dra uninstall --delete-vms): install KubeVirt first, or use --overlay standalone",
            ),
        ),
        (
            seen(crds={**OWN_VMS, KUBEVIRTS: definition(ours=False)}),
            Choices(),
            (
                "virtualmachineinstances.kubevirt.io, virtualmachines.kubevirt.io are "
                "virt-dra's own (overlay standalone), not KubeVirt's: "
                "remove them with: virt-dra uninstall --delete-vms",
            ),
        ),
        (
            seen(),
            Choices(STANDALONE, cert_manager=True),
            ("the cluster doesn't serve cert-manager.io/v1: install cert-manager, or leave out --cert-manager",),
        ),
        (
            seen(),
            Choices(STANDALONE, parts=frozenset({MONITORING})),
            (
                "the cluster doesn't serve monitoring.coreos.com/v1: install the Prometheus operator, "
                "or leave out --monitoring",
            ),
        ),
        (seen(version="v1.36.0"), Choices(STANDALONE, parts=frozenset({"keeper"})), ()),
        (seen(version="v1.35.4"), Choices(STANDALONE), ()),
        (
            seen(version="v1.35.4"),
            Choices(STANDALONE, parts=frozenset({"keeper"})),
            (
                "Kubernetes v1.35.4's claim controller leaves pods that have ended among the users of a claim that a "
                "VM keeps, and the policy virt-dra-keeper-consumers doesn't let the keeper remove them, so that "
                "nothing is ever released (1.36 and newer remove them): upgrade, or leave out --keeper",
            ),
        ),
        (
            seen(deployments=({"metadata": {"name": "virt-dra-operator", "namespace": "devices"}},)),
            Choices(STANDALONE),
            (
                "virt-dra is already installed in the namespace devices, and a cluster can have only one: "
                "use --own-namespace devices, or remove it "
                "there first with: virt-dra uninstall",
            ),
        ),
        (
            seen(
                there={
                    ObjectKey("ClusterRole", "", "virt-dra-view"): {"metadata": {}},
                    ObjectKey("Namespace", "", "virt-dra"): {"metadata": {}},
                }
            ),
            Choices(STANDALONE),
            (
                "ClusterRole virt-dra-view exists and isn't virt-dra's (it lacks "
                "the label app.kubernetes.io/part-of=virt-dra): "
                "rename or remove it",
            ),
        ),
    ],
)
def test_an_installation_is_refused_where_it_would_harm_or_not_work(
    survey: Survey, choices: Choices, expected: tuple[str, ...]
) -> None:
    assert refusals(survey, choices) == expected


def test_objects_of_an_older_version_are_stale_unless_they_hold_data_or_are_foreign() -> None:
    def obj(kind: str, name: str, namespace: str = "", **metadata: object) -> dict[str, object]:
        return {"kind": kind, "metadata": {"name": name, "namespace": namespace, **OURS, **metadata}}

    there = [
        obj("ConfigMap", "old", "virt-dra"),
        obj("ClusterRole", "old"),
        obj("ValidatingWebhookConfiguration", "old"),
        obj("ClusterRole", "kept"),
        obj("CustomResourceDefinition", "olds.virt-dra.io"),
        obj("Namespace", "older"),
        obj("Service", "of-another", "virt-dra", ownerReferences=[{"name": "x"}]),
        obj("Secret", "foreign", "virt-dra", labels={"app.kubernetes.io/part-of": "another"}),
        obj("Secret", "made", "virt-dra", annotations={"cert-manager.io/certificate-name": "wanted"}),
        obj("Secret", "left", "virt-dra", annotations={"cert-manager.io/certificate-name": "gone"}),
    ]
    assert stale(there, [obj("ClusterRole", "kept"), obj("Certificate", "wanted", "virt-dra")]) == (
        ObjectKey("ValidatingWebhookConfiguration", "", "old"),
        ObjectKey("ConfigMap", "virt-dra", "old"),
        ObjectKey("Secret", "virt-dra", "left"),
        ObjectKey("ClusterRole", "", "old"),
    )


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_another_namespace_leaves_no_trace_of_the_default_one(overlay: Overlay) -> None:
    def texts(value: object) -> list[str]:
        if isinstance(value, dict):
            return [text for value in value.values() for text in texts(value)]
        if isinstance(value, list):
            return [text for item in value for text in texts(item)]
        return [value] if isinstance(value, str) else []

    objects = planned(Choices(overlay, "elsewhere", cert_manager=True), packaged())
    places = [
        (ObjectKey.from_object(obj), text)
        for obj in objects
        for text in texts(obj)
        if obj["metadata"].get("namespace") == "virt-dra"
        or "virt-dra.svc" in text.replace("virt-dra-webhook", "")
        or ":virt-dra:" in text
    ]
    assert places == []
    selectors = [
        term["values"]
        for obj in objects
        for webhook in obj.get("webhooks", ())
        for term in webhook["namespaceSelector"]["matchExpressions"]
    ]
    assert selectors
    assert all(values == ["kube-system", "elsewhere"] for values in selectors)


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_part_is_added_on_request_in_its_own_namespace_or_virt_dras(part: OptionalPart) -> None:
    choices = Choices(namespace="elsewhere", image="registry.example.com/virt-dra:1")
    plain, chosen = (
        planned(replace(choices, parts=parts), packaged()) for parts in (frozenset[str](), frozenset({part.name}))
    )
    added = [obj for obj in chosen if obj not in plain]
    there = {part.namespace or "elsewhere"}
    moved = [installed_in(obj, part.namespace or "elsewhere") for obj in build(packaged(), part.name)]
    assert [obj for obj in chosen if obj not in added] == list(plain)
    assert sorted(map(ObjectKey.from_object, added)) == sorted(map(ObjectKey.from_object, moved))
    assert {obj["metadata"]["namespace"] for obj in added if "namespace" in obj["metadata"]} <= there
    assert all(is_ours(obj) for obj in added)
    assert there <= set(possible_namespaces("elsewhere"))


CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def test_who_may_ask_the_webhook_is_chosen(golden: Golden, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text(CERTIFICATE)
    plain = run("--dry-run").stdout
    asked = (
        "--client-ca",
        str(tmp_path / "ca.crt"),
        "--api-server-cidr",
        "10.0.0.0/28",
        "--api-server-cidr",
        "fd00::1",
    )
    golden("install_callers.diff", changes(plain, run("--dry-run", *asked).stdout, 3))


@pytest.mark.parametrize(
    ("option", "given", "want"),
    [
        ("--client-ca", "nonsense", "it must hold certificates in PEM, and no private key"),
        (
            "--client-ca",
            f"{CERTIFICATE}-----BEGIN PRIVATE KEY-----\n",
            "it must hold certificates in PEM, and no private key",
        ),
        ("--api-server-cidr", "10.0.0/8", "'10.0.0/8' is neither an address nor a network; write it as 10.0.0.0/28"),
        ("--api-server-cidr", "10.0.0.10/28", "'10.0.0.10/28' has host bits set; write 10.0.0.0/28"),
        ("--api-server-cidr", "fd00::1/64", "'fd00::1/64' has host bits set; write fd00::/64"),
    ],
)
def test_what_can_not_say_who_may_ask(tmp_path: Path, option: str, given: str, want: str) -> None:
    (tmp_path / "ca.crt").write_text(given)
    result = run("--dry-run", option, given if option == "--api-server-cidr" else str(tmp_path / "ca.crt"))
    assert result.exit_code == 2
    assert want in result.output
