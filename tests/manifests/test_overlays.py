"""What both overlays promise: labels, hardened pods, policies of the webhooks; and that kustomize reads the same
objects."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from devtools.cluster.programs import KUBECTL, binary
from virt_dra.api.wire import Json
from virt_dra.installation.kustomize import ManifestError, build
from virt_dra.installation.plan import BESIDE_KUBEVIRT, STANDALONE, Choices, ObjectKey, Overlay, packaged, planned

MANIFESTS = Path(__file__).parents[2] / "manifests"
OVERLAYS: tuple[Overlay, ...] = (BESIDE_KUBEVIRT, STANDALONE)
VARIANTS = [Choices(overlay, cert_manager=cert_manager) for overlay in OVERLAYS for cert_manager in (False, True)]
each_variant = pytest.mark.parametrize(
    "choices", VARIANTS, ids=lambda choices: f"{choices.overlay}{'-cert-manager' * choices.cert_manager}"
)


def objects(choices: Choices, *kinds: str) -> list[Json]:
    return [obj for obj in planned(choices, packaged()) if not kinds or obj["kind"] in kinds]


@pytest.mark.control_plane(seconds=0.5)  # only its kubectl
@each_variant
@pytest.mark.parametrize("client_ca", [False, True], ids=["", "client-ca"])
def test_kustomize_reads_the_same_objects(choices: Choices, client_ca: bool, tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl") or binary(KUBECTL)
    if kubectl is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(
            "kubectl is missing: it carries kustomize, which reads the manifests too"
        )
    shutil.copytree(MANIFESTS, tmp_path / "manifests")
    folder = tmp_path / "manifests" / "overlays" / choices.overlay
    components = [name for name, chosen in (("cert-manager", choices.cert_manager), ("client-ca", client_ca)) if chosen]
    page = yaml.load((folder / "kustomization.yaml").read_text(), yaml.CSafeLoader)
    page["components"] = [*page.get("components", []), *(f"../../components/{name}" for name in components)]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(page))
    printed = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=True).stdout
    rendered = build(packaged(), f"overlays/{choices.overlay}", [f"components/{name}" for name in components])
    ours = rendered if client_ca else objects(choices)  # a client CA adds its Secret, which is no manifest
    assert {ObjectKey.from_object(obj): obj for obj in yaml.load_all(printed, yaml.CSafeLoader)} == {
        ObjectKey.from_object(obj): obj for obj in ours
    }


@each_variant
def test_every_object_has_our_label_and_this_version(choices: Choices) -> None:
    wanted = {"app.kubernetes.io/part-of": "virt-dra", "app.kubernetes.io/version": version("virt-dra")}
    wrong = [
        ObjectKey.from_object(obj)
        for obj in objects(choices)
        if not wanted.items() <= obj["metadata"]["labels"].items()
    ]
    assert wrong == []


@each_variant
def test_every_namespaced_object_names_its_namespace(choices: Choices) -> None:
    cluster_scoped = {
        "Namespace", "CustomResourceDefinition", "PriorityClass", "ClusterRole", "ClusterRoleBinding",
        "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
    }  # fmt: skip
    assert {
        ObjectKey.from_object(obj)
        for obj in objects(choices)
        if (obj["kind"] in cluster_scoped) is ("namespace" in obj["metadata"])
    } == set()


SILENT = "virt-dra-certificates"
"""Answers nobody: it has no port, no probe and one replica."""


def containers(choices: Choices) -> Iterator[tuple[Json, Json]]:
    """Pod specification and container."""
    for deployment in objects(choices, "Deployment"):
        spec = deployment["spec"]["template"]["spec"]
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            yield spec, container


@each_variant
def test_containers_may_do_nothing_that_they_need_not(choices: Choices) -> None:
    checked = list(containers(choices))
    assert len(checked) == (2 if choices.cert_manager else 3)
    for spec, container in checked:
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        assert not any("hostPath" in volume for volume in spec.get("volumes", ()))
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["resources"]["limits"].keys() == {"memory"}  # why no CPU: see the manifest
        probes = {"livenessProbe", "readinessProbe", "startupProbe"}
        assert (container.keys() & probes) == (set() if spec["serviceAccountName"] == SILENT else probes)


@each_variant
def test_the_namespace_enforces_the_restricted_pod_security_standard(choices: Choices) -> None:
    (namespace,) = objects(choices, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@each_variant
def test_every_deployment_survives_the_drain_of_a_node(choices: Choices) -> None:
    budgets = {budget["metadata"]["name"]: budget["spec"] for budget in objects(choices, "PodDisruptionBudget")}
    for deployment in (obj for obj in objects(choices, "Deployment") if obj["metadata"]["name"] != SILENT):
        spec = deployment["spec"]
        pod = spec["template"]["metadata"]["labels"]
        assert spec["replicas"] >= 2
        assert budgets[deployment["metadata"]["name"]]["selector"] == spec["selector"]
        assert spec["selector"]["matchLabels"].items() <= pod.items()
        (spread,) = spec["template"]["spec"]["topologySpreadConstraints"]
        assert (spread["topologyKey"], spread["labelSelector"]) == ("kubernetes.io/hostname", spec["selector"])


@each_variant
def test_network_policies_name_the_pods_and_ports_that_there_are(choices: Choices) -> None:
    policies = {policy["metadata"]["name"]: policy["spec"] for policy in objects(choices, "NetworkPolicy")}
    for deployment in objects(choices, "Deployment"):
        policy = policies[deployment["metadata"]["name"]]
        assert policy["podSelector"] == deployment["spec"]["selector"]
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        opened = {port["port"] for rule in policy.get("ingress", ()) for port in rule["ports"]}
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        if deployment["metadata"]["name"] == SILENT:
            assert (opened, container.get("ports")) == (set(), None)
            continue
        metrics = int(deployment["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"])
        named = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert opened == {metrics} | ({named["reviews"]} if "reviews" in named else set())


@each_variant
def test_who_serves_has_no_key_but_its_own(choices: Choices) -> None:
    """The webhook mounts two files of one Secret, and reads no Secret; the authority's key is where only
    virt-dra-certificates reads it."""
    specs = {obj["metadata"]["name"]: obj["spec"]["template"]["spec"] for obj in objects(choices, "Deployment")}
    mounted = {
        name: [volume["secret"] for volume in spec["volumes"] if "secret" in volume] for name, spec in specs.items()
    }
    items = [{"key": name, "path": name} for name in ("tls.crt", "tls.key")]
    assert mounted.pop("virt-dra-webhook") == [{"secretName": "virt-dra-webhook-tls", "items": items}]
    assert not any(mounted.values())
    rules = {(obj["kind"], obj["metadata"]["name"]): obj["rules"] for obj in objects(choices, "Role", "ClusterRole")}
    readers = {name for (_, name), given in rules.items() for rule in given if "secrets" in rule["resources"]}
    assert readers == (set() if choices.cert_manager else {SILENT})


@each_variant
def test_the_service_leads_to_the_webhook(choices: Choices) -> None:
    (service,) = objects(choices, "Service")
    (deployment,) = (obj for obj in objects(choices, "Deployment") if obj["metadata"]["name"] == "virt-dra-webhook")
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {port["containerPort"] for port in container["ports"]} >= {
        port["targetPort"] for port in service["spec"]["ports"]
    }
    for client in (
        webhook["clientConfig"]["service"]
        for configuration in configurations(choices).values()
        for webhook in configuration
    ):
        assert (client["name"], client["namespace"]) == (service["metadata"]["name"], service["metadata"]["namespace"])
        assert client["port"] in {port["port"] for port in service["spec"]["ports"]}


def configurations(choices: Choices) -> dict[str, list[Json]]:
    kinds = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
    return {obj["kind"]: obj["webhooks"] for obj in objects(choices, *kinds)}


@pytest.mark.parametrize(
    ("overlay", "policies"),
    [
        (
            BESIDE_KUBEVIRT,
            {
                "vmi.virt-dra.io": "Ignore",
                "vm.virt-dra.io": "Ignore",
                "launcher-pods.virt-dra.io": "Fail",
                "profiles.virt-dra.io": "Fail",
            },
        ),
        (STANDALONE, {"vmi.virt-dra.io": "Fail", "vm.virt-dra.io": "Fail", "profiles.virt-dra.io": "Fail"}),
    ],
)
def test_webhooks_are_as_decided(overlay: Overlay, policies: dict[str, str]) -> None:
    """docs/decisions/0012-real-cluster.md"""
    webhooks = [webhook for configuration in configurations(Choices(overlay)).values() for webhook in configuration]
    assert {webhook["name"]: webhook["failurePolicy"] for webhook in webhooks} == policies
    for webhook in webhooks:
        assert webhook["sideEffects"] == "None"
        assert webhook["timeoutSeconds"] == 10
        assert webhook["admissionReviewVersions"] == ["v1"]
        assert webhook["namespaceSelector"] == {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "virt-dra"]}
            ]
        }
        assert all(rule["scope"] == "Namespaced" and "DELETE" not in rule["operations"] for rule in webhook["rules"])
        if webhook["name"].startswith("launcher-pods"):
            assert webhook["objectSelector"] == {"matchLabels": {"kubevirt.io": "virt-launcher"}}
        if webhook["name"].startswith(("launcher-pods", "profiles")):
            assert webhook["reinvocationPolicy"] == "IfNeeded"


FILES: dict[str, Any] = {
    "unknown field": ("a/kustomization.yaml", "namePrefix: x-\n", "not supported: namePrefix"),
    "other patch": (
        "a/kustomization.yaml",
        "resources: [x.yaml]\npatches: [{target: {kind: Service}, patch: 'spec: {}'}]\n",
        "only JSON patches",
    ),
    "patch by file": (
        "a/kustomization.yaml",
        "patches: [{path: x.yaml}]\n",
        "a patch has a target (kind, name) and an inline patch; path",
    ),
    "patch that fails": (
        "a/kustomization.yaml",
        "resources: [x.yaml]\npatches: [{target: {kind: Service}, patch: '[{op: remove, path: /a}]'}]\n",
        "patches: {'kind': 'Service'}: operation 0",
    ),
    "selectors": (
        "a/kustomization.yaml",
        "resources: [x.yaml]\nlabels: [{pairs: {a: b}, includeSelectors: true}]\n",
        "only pairs are supported",
    ),
    "twice": ("a/kustomization.yaml", "resources: [x.yaml, x.yaml]\n", "Service s occurs twice"),
    "missing": ("a/kustomization.yaml", "resources: [folder]\n", "a/folder/kustomization.yaml: no such file"),
    "itself": ("a/kustomization.yaml", "resources: [../a]\n", "includes itself"),
    "hash of a ConfigMap's files": (
        "a/kustomization.yaml",
        "configMapGenerator: [{name: c, namespace: n, files: [x.yaml], options: {}}]\n",
        "configMapGenerator: only with disableNameSuffixHash: true",
    ),
    "literals": (
        "a/kustomization.yaml",
        "configMapGenerator: [{name: c, namespace: n, literals: [a=b], options: {disableNameSuffixHash: true}}]\n",
        "configMapGenerator: use name, namespace, files, and labels in options",
    ),
    "missing file of a ConfigMap": (
        "a/kustomization.yaml",
        "configMapGenerator: [{name: c, namespace: n, files: [y.txt], options: {disableNameSuffixHash: true}}]\n",
        "configMapGenerator: y.txt: no such file",
    ),
    "no yaml": ("a/kustomization.yaml", "resources: [\n", "a/kustomization.yaml:"),
    "no object": ("a/kustomization.yaml", "- a\n", "must be an object"),
}


@pytest.mark.parametrize("case", FILES)
def test_what_kustomize_would_read_otherwise_is_refused(case: str) -> None:
    name, text, message = FILES[case]
    files = {name: text.encode(), "a/x.yaml": b"apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"}
    with pytest.raises(ManifestError) as refused:
        build(files.get, "a")
    assert message in str(refused.value)
