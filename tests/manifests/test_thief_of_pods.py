"""What pods a stolen token of the standalone operator makes and changes on a real API server: each field of a pod, by
the server's OpenAPI document, with a foreign value in a launcher pod.

Those that pass are listed with their reasons in cases/harmless_pod_fields.yaml.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devtools.cluster.control_plane import ControlPlane
from tests.manifests.acting import JSON_PATCH, acting_as
from tests.manifests.live_cluster import until
from tests.manifests.pod_fields import Fields
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.kubevirt_versions import NEWEST, SIDECAR, Gates, KubeVirtVersion
from virt_dra.controllers.pods.launcher_pods import HOOK_SIDECARS_ANNOTATION
from virt_dra.controllers.pods.launcher_resources import RenderError
from virt_dra.controllers.standalone.pod import StandaloneOptions, standalone_pod
from virt_dra.installation.launcher_limits import LAUNCHER_POLICY
from virt_dra.installation.plan import OPERATOR, STANDALONE, Choices, packaged, planned

pytestmark = pytest.mark.control_plane

Json = dict[str, Any]
Ask = Callable[..., tuple[int, str]]
CASES = Path(__file__).parent / "cases"
HARMLESS: dict[str, dict[str, str]] = yaml.safe_load((CASES / "harmless_pod_fields.yaml").read_text(encoding="utf-8"))
FRAGMENTS = Path(__file__).parents[1] / "controllers" / "pods" / "cases" / "launcher_fragments.yaml"
INSTALLED = (
    "Namespace", "ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding",
    "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "PriorityClass", "CustomResourceDefinition",
)  # fmt: skip
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
OPTIONS = StandaloneOptions("virt-dra-launcher:0.1.0", ("--uri=qemu:///session", "--daemon=virtqemud"))
GATES = Gates.for_version(
    NEWEST, {"GPUsWithDRA": True, "HostDevicesWithDRA": True, "NetworkDevicesWithDRA": True, SIDECAR: False}
)
SIDECARS = Gates.for_version(NEWEST, {SIDECAR: True})
FOREIGN_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "virt-dra")
PLAIN: Json = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SHADOW = "shadows.example.com"
"""A kind without a schema, which the same policy limits: for values that the API server refuses in a pod whatever the
policy says of them."""


class Thief:
    """The operator's account on a cluster with the standalone overlay's policies."""

    def __init__(self, plane: ControlPlane, namespace: str, ask: Ask) -> None:
        self.plane, self.namespace, self.ask = plane, namespace, ask
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, pod: Json) -> tuple[int, str]:
        return self.ask("POST", self.pods, pod)

    def stored(self, pod: Json) -> Json:
        """The pod as the API server would store it."""
        code, text = self.create(pod)
        assert code == 201, text
        return without_server_fields(json.loads(text))

    def limit(self, **expressions: str) -> None:
        """Sets variables of the policy, and waits until the API server follows it."""
        path = f"{POLICIES}/{LAUNCHER_POLICY}"
        for policy in (path, f"{path}-shadow"):
            variables = self.plane.request("GET", policy)["spec"]["variables"]
            changed = [
                {**variable, "expression": expressions.get(variable["name"], variable["expression"])}
                for variable in variables
            ]
            self.plane.merge(policy, {"spec": {"variables": changed}})


def without_server_fields(pod: Json) -> Json:
    """What of an answer is the pod's, and not of that one request."""
    metadata = {
        key: value
        for key, value in pod["metadata"].items()
        if key not in ("uid", "creationTimestamp", "managedFields", "generation", "resourceVersion")
    }
    return {key: value for key, value in pod.items() if key != "status"} | {"metadata": metadata}


def launcher(gates: Gates = GATES, spec: Json | None = None, name: str = "vm", **metadata: Any) -> Json:
    """The pod that the operator makes of a VMI."""
    vmi = {"metadata": {"name": name, "namespace": "ns", "uid": "1f6a", **metadata}, "spec": spec or {}}
    pod = standalone_pod(VirtualMachineInstance.from_wire(vmi), gates, OPTIONS)
    assert not isinstance(pod, RenderError), pod
    wire = pod.to_wire()
    return wire | {"metadata": {key: value for key, value in wire["metadata"].items() if key != "namespace"}}


@pytest.fixture(scope="module")
def thief() -> Iterator[Thief]:
    with ControlPlane(service_accounts=True, arguments=("--allow-privileged",)) as plane:
        for obj in planned(Choices(STANDALONE), packaged()):
            if obj["kind"] in INSTALLED:
                plane.request("POST", _collection(obj), obj)
        _install_shadow(plane)
        namespace = plane.create_namespace()
        for foreign in FOREIGN_NAMESPACES:  # else it is for want of this that a pod is refused
            plane.request("POST", f"/api/v1/namespaces/{foreign}/serviceaccounts", {"metadata": {"name": "default"}})
        with acting_as(plane, plane.kubeconfig_of_service_account("virt-dra", OPERATOR)) as ask:
            there = Thief(plane, namespace, ask)
            until(lambda: "denied request" in there.create(PLAIN)[1], "the policy")
            yield there


def _collection(obj: Json) -> str:
    group = "/api/v1" if obj["apiVersion"] == "v1" else f"/apis/{obj['apiVersion']}"
    namespace = obj["metadata"].get("namespace")
    plural = f"{obj['kind'].lower()}s".replace("policys", "policies").replace("classs", "classes")
    return f"{group}/namespaces/{namespace}/{plural}" if namespace else f"{group}/{plural}"


def _install_shadow(plane: ControlPlane) -> None:
    plural, _, group = SHADOW.partition(".")
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": plural, "kind": "Shadow"}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    crd = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
    named = {"name": SHADOW}
    plane.request(
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": named, "spec": crd},
    )
    plane.wait_until_established(SHADOW)
    policy = plane.request("GET", f"{POLICIES}/{LAUNCHER_POLICY}")
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    rule |= {"apiGroups": [group], "resources": [plural]}
    name = f"{LAUNCHER_POLICY}-shadow"
    binding: Json = {"policyName": name, "validationActions": ["Deny"]}
    for path, spec in ((POLICIES, policy["spec"]), (f"{POLICIES.removesuffix('policies')}policybindings", binding)):
        plane.request("POST", path, {"metadata": {"name": name}, "spec": spec})
    rules = [{"apiGroups": [group], "resources": [plural], "verbs": ["create"]}]
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterrole"
    plane.request("POST", f"{roles}s", {"metadata": {"name": "shadow"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "shadow"}
    subject = {"kind": "ServiceAccount", "name": OPERATOR, "namespace": "virt-dra"}
    bound = {"metadata": {"name": "shadow"}, "roleRef": reference, "subjects": [subject]}
    plane.request("POST", f"{roles}bindings", bound)


# --- what passes ---


FULL: Json = {
    "resourceClaims": [
        {"name": "gpu", "resourceClaimTemplateName": "gpu"},
        {"name": "net", "resourceClaimName": "nics"},
    ],
    "domain": {
        "devices": {
            "gpus": [{"name": "gpu", "claimName": "gpu", "requestName": "gpu"}],
            "interfaces": [{"name": "fast", "sriov": {}}],
        }
    },
    "networks": [{"name": "fast", "resourceClaim": {"claimName": "net", "requestName": "nic"}}],
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "nodeSelector": {"zone": "a"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
            }
        }
    },
}


@pytest.mark.slow(seconds=30)
def test_of_a_new_pod_only_harmless_fields_take_a_foreign_value(thief: Thief) -> None:
    base = thief.stored(launcher(spec=FULL))
    assert _passing(thief, base) == _listed("created")


@pytest.mark.slow(seconds=30)
def test_of_a_hook_sidecar_only_what_the_vm_says_takes_a_foreign_value(thief: Thief) -> None:
    """With the gate Sidecar, which lets VMs run programs of their own."""
    hook = json.dumps([{"image": "hook:1", "command": ["run"], "args": ["--fast"]}])
    thief.limit(sidecars="true")
    try:
        pod = launcher(SIDECARS, annotations={HOOK_SIDECARS_ANNOTATION: hook})
        until(lambda: thief.create(pod)[0] == 201, "the gate")
        base = thief.stored(pod)
        passing = _passing(thief, base)
    finally:
        thief.limit(sidecars="false")
        until(lambda: thief.create(pod)[0] == 403, "the end of the gate")
    assert passing - _listed("created") == _listed("sidecars")


def _passing(thief: Thief, base: Json) -> set[str]:
    """The entries of the list that the fields which pass belong to, and the fields themselves that belong to none."""
    document = thief.plane.request("GET", "/openapi/v3/api/v1")
    fields = Fields(document, "io.k8s.api.core.v1.Pod")
    outcomes = Counter[str]()
    passing: set[str] = set()
    attempts = [*fields.changed(base), *fields.shortened(base)]
    for path, pod in attempts:
        if path.removeprefix("-") in ("apiVersion", "kind", "status") or path.startswith("status."):
            continue  # another kind is no pod; a new pod's status is the server's
        outcome = _outcome(thief, base, pod)
        outcomes[outcome] += 1
        if outcome == "passes":
            passing.add(_entry(path))
    assert outcomes["refused"] > 1000, outcomes
    return passing


def _outcome(thief: Thief, base: Json, pod: Json) -> str:
    code, text = thief.create(pod)
    if _is_refused(code, text):
        return "refused"
    if code == 201:
        return "dropped" if without_server_fields(json.loads(text)) == base else "passes"
    shadow = {**pod, "apiVersion": "example.com/v1", "kind": "Shadow"}
    path = f"/apis/example.com/v1/namespaces/{thief.namespace}/{SHADOW.partition('.')[0]}"
    code, text = thief.ask("POST", path, shadow)
    if _is_refused(code, text):
        return "refused"
    return "passes" if code == 201 else "invalid"  # metadata that no object may have


def _is_refused(code: int, text: str) -> bool:
    """By the policy, be it that it can't be evaluated for want of a field."""
    return code in (403, 422) and f"'{LAUNCHER_POLICY}" in text


def _entry(path: str) -> str:
    for entry in (entry for section in HARMLESS.values() for entry in section):
        if (
            path == entry
            or path.removeprefix("-") == entry
            or path.removeprefix("-").startswith((f"{entry}.", f"{entry}["))
        ):
            return entry
    return path


def _listed(section: str) -> set[str]:
    assert all(HARMLESS[section].values()), "each field needs its reason"
    return set(HARMLESS[section])


@pytest.mark.slow(seconds=30)
def test_of_a_pod_that_is_there_nothing_takes_a_foreign_value(thief: Thief) -> None:
    """But its annotations of ours, which cases/thief.yaml has by name."""
    pod = thief.plane.request("POST", thief.pods, launcher(spec=FULL, name="there"))
    path = f"{thief.pods}/{pod['metadata']['name']}"
    document = thief.plane.request("GET", "/openapi/v3/api/v1")
    passing: set[str] = set()
    refused = 0
    base = {key: value for key, value in pod.items() if key != "status"}
    fields = Fields(document, "io.k8s.api.core.v1.Pod")
    for field, changed in (*fields.changed(base), *fields.shortened(base)):
        if field.startswith(("status", "metadata.resourceVersion", "apiVersion", "kind")):
            continue
        operations = [
            {"op": "add" if key in changed else "remove", "path": f"/{key}", "value": changed.get(key)}
            for key in {*base, *changed}
            if changed.get(key) != base.get(key)
        ]
        code, text = thief.ask("PATCH", path, operations, JSON_PATCH)
        refused += code >= 400
        if code == 200 and without_server_fields(json.loads(text)) != without_server_fields(pod):
            passing.add(field)
    assert (passing, refused > 1000) == (set(), True)


@pytest.mark.parametrize("subresource", ["binding", "eviction", "exec", "attach", "portforward", "proxy", "log",
                                         "ephemeralcontainers", "status", "resize"])  # fmt: skip
def test_a_pods_subresources_are_not_the_operators(thief: Thief, subresource: str) -> None:
    for verb in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        code, text = thief.ask(verb, f"{thief.pods}/any/{subresource}", {})
        assert (code, f"pods/{subresource}" in text) == (403, True), f"{verb} {code}: {text}"


@pytest.mark.parametrize("namespace", FOREIGN_NAMESPACES)
def test_no_pod_is_made_in_the_clusters_namespaces_and_ours(thief: Thief, namespace: str) -> None:
    code, text = thief.ask("POST", f"/api/v1/namespaces/{namespace}/pods", launcher())
    assert code == 403
    assert "may not create pods in a namespace of the cluster's or in its own" in text, text


# --- what virt-dra makes is admitted ---


LONG = "a-very-long-name-of-a-virtual-machine-which-is-cut-in-the-names-of-pods-and-labels"
SHAPES: dict[str, Callable[[], Json]] = {
    "least": launcher,
    "claims and networks": lambda: launcher(spec=FULL),
    "long name": lambda: launcher(name=LONG),
    "longest name": lambda: launcher(name="a" * 253),
    "name with dots": lambda: launcher(name="vm.with.dots"),
    "name of 60": lambda: launcher(name="a" * 60),
    "host name": lambda: launcher(spec={"hostname": "own-name"}),
    "dedicated processors and huge pages": lambda: launcher(
        spec={
            "domain": {
                "cpu": {"cores": 4, "dedicatedCpuPlacement": True},
                "memory": {"guest": "4Gi", "hugepages": {"pageSize": "1Gi"}},
                "resources": {"limits": {"memory": "5Gi"}},
            }
        }
    ),
    "negative grace": lambda: launcher(spec={"terminationGracePeriodSeconds": -5}),
    "labels and annotations": lambda: launcher(
        labels={"app": "x", "kubevirt.io": "mine", "vm.kubevirt.io/name": "mine"},
        annotations={
            "virt-dra.io/integration-path": "native",
            "virt-dra.io/device-status": "{}",
            "kubevirt.io/domain": "x",
            "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
            "metadata.virt-dra.io/gpu.gpu": "{}",
        },
    ),
    "8,000 short annotations": lambda: launcher(annotations={f"a/{n}": "" for n in range(8000)}),
    "3,000 annotations": lambda: launcher(annotations={f"example.com/annotation-{n:04}": "x" for n in range(3000)}),
    "64 claims": lambda: launcher(
        spec={
            "resourceClaims": [{"name": f"c{n}", "resourceClaimName": f"c{n}"} for n in range(64)],
            "domain": {"devices": {"interfaces": [{"name": f"n{n}", "sriov": {}} for n in range(64)]}},
            "networks": [
                {"name": f"n{n}", "resourceClaim": {"claimName": f"c{n}", "requestName": "nic"}} for n in range(64)
            ],
        }
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_launcher_pods_of_every_shape_are_admitted(thief: Thief, shape: str) -> None:
    code, text = thief.create(SHAPES[shape]())
    assert code == 201, text


def test_whatever_is_rendered_is_admitted_unless_the_pod_is_invalid(thief: Thief) -> None:
    outcomes = Counter[int]()
    for case in yaml.safe_load(FRAGMENTS.read_text(encoding="utf-8")):
        version = KubeVirtVersion.parse(str(case["kubevirt"])) if "kubevirt" in case else NEWEST
        gates = Gates.for_version(version, case.get("gates"))
        try:
            wire = launcher(gates, case["spec"])
        except AssertionError:
            continue  # such a VM has no pod
        claims = wire["spec"]["containers"][0]["resources"].get("claims", ())
        for name in {claim["name"] for claim in claims} if "resourceClaims" not in wire["spec"] else ():
            # The cases are of devices alone; the pod must have the claims that they name.
            wire["spec"].setdefault("resourceClaims", []).append({"name": name, "resourceClaimName": "any"})
        code, text = thief.create(wire)
        assert code in (201, 422), f"{case['name']}: {text}"
        assert LAUNCHER_POLICY not in text, f"{case['name']}: {text}"
        outcomes[code] += 1
    assert outcomes[201] > 15, outcomes


def test_what_the_clusters_admission_adds_is_admitted_once_the_policy_says_so(thief: Thief) -> None:
    """imagePullSecrets of the ServiceAccount, the default PriorityClass, a LimitRange; and not what a thief adds."""
    account = f"/api/v1/namespaces/{thief.namespace}/serviceaccounts/default"
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    limit = {"type": "Container", "default": {"memory": "1Gi"}, "defaultRequest": {"cpu": "1"}}
    refusal = "virt-dra install --launcher-priority and --launcher-pull-secret"
    thief.plane.request(
        "POST",
        f"/api/v1/namespaces/{thief.namespace}/limitranges",
        {"metadata": {"name": "l"}, "spec": {"limits": [limit]}},
    )
    thief.plane.merge(account, {"imagePullSecrets": [{"name": "registry"}]})
    thief.plane.request("POST", classes, {"metadata": {"name": "vms"}, "value": 1000, "globalDefault": True})
    wanted = planned(Choices(STANDALONE, launcher_pull_secrets=("registry",), launcher_priority=1000), packaged())
    policy = next(obj for obj in wanted if obj["metadata"]["name"] == LAUNCHER_POLICY)
    variables = {variable["name"]: variable["expression"] for variable in policy["spec"]["variables"]}
    try:
        until(lambda: refusal in thief.create(launcher())[1], "the default class")
        thief.limit(highestPriority=variables["highestPriority"])
        thief.limit(pullSecrets=variables["pullSecrets"])
        until(lambda: thief.create(launcher())[0] == 201, "the secret")
        foreign = launcher()
        foreign["spec"]["imagePullSecrets"] = [{"name": "foreign"}]
        code, text = thief.create(foreign)
        assert (code, refusal in text) == (403, True)
    finally:
        thief.limit(highestPriority="0", pullSecrets="[]")
        thief.plane.request("DELETE", f"{classes}/vms")
        thief.plane.merge(account, {"imagePullSecrets": None})
        thief.plane.request("DELETE", f"/api/v1/namespaces/{thief.namespace}/limitranges/l")
