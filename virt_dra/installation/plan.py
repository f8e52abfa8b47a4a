"""The objects of an installation: the manifests, with what the user chose. Pure; files come through a function.

``virt-dra install --dry-run`` prints these objects and ``virt-dra install`` applies them: there is no third place that
changes one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, Literal, TypedDict

from virt_dra.api.integration.paths import PART_OF, PART_OF_LABEL
from virt_dra.api.wire import Json
from virt_dra.installation.callers import CLIENT_CA, client_ca_secret, from_addresses
from virt_dra.installation.kustomize import ManifestError, Read, build, split_image, with_containers
from virt_dra.installation.launcher_limits import cel_literal, launcher_of, launcher_variables, pinned_variables

Overlay = Literal["beside-kubevirt", "standalone"]
BESIDE_KUBEVIRT: Final = "beside-kubevirt"
STANDALONE: Final = "standalone"
NAMESPACE: Final = "virt-dra"
"""The namespace that the manifests are written for."""
DRIVER_NAMESPACE: Final = "virt-dra-driver"
EXTENDER_NAMESPACE: Final = "virt-dra-extender"
CERT_MANAGER: Final = "components/cert-manager"
MONITORING: Final = "monitoring"
MONITORING_API: Final = "monitoring.coreos.com/v1"
"""Of the Prometheus operator."""
RUNBOOK_ANNOTATION: Final = "runbook_url"
"""On alerts: their page."""
RUNBOOKS: Final = "docs/runbooks"
"""The folder of these pages, as the manifests name it: in the source."""
INJECT_ANNOTATION: Final = "cert-manager.io/inject-ca-from"
"""On webhook configurations, for cert-manager: whose authority becomes the caBundle."""
CERTIFICATE_ANNOTATION: Final = "cert-manager.io/certificate-name"
"""On Secrets, by cert-manager: of which Certificate it is made."""
IMAGE: Final = "virt-dra"
LAUNCHER_IMAGE: Final = "virt-dra-launcher"
OPERATOR: Final = "virt-dra-operator"
WEBHOOK: Final = "virt-dra-webhook"
"""The Deployments, of one container each."""
OWN_NAMESPACE: Final = "ownNamespace"
"""A variable of policies: the namespace of virt-dra."""
VM_NAMESPACE: Final = "forVirtualMachines"
"""A variable of policies: True where the operator may create pods and VMIs."""
PULL_SECRETS: Final = "pullSecrets"
HIGHEST_PRIORITY: Final = "highestPriority"
"""Variables of the policy of launcher pods: what admission may add to them."""
SYSTEM_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
"""Namespaces in which virt-dra can't be installed: the webhook doesn't watch them, and they can't be removed with
it."""


KINDS: Final[Mapping[str, str]] = {
    "Namespace": "v1",
    "CustomResourceDefinition": "apiextensions.k8s.io/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    # Before the RBAC permissions that they limit.
    "ValidatingAdmissionPolicy": "admissionregistration.k8s.io/v1",
    "ValidatingAdmissionPolicyBinding": "admissionregistration.k8s.io/v1",
    "ServiceAccount": "v1",
    "ClusterRole": "rbac.authorization.k8s.io/v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "ClusterRoleBinding": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "Secret": "v1",
    "ConfigMap": "v1",
    "DeviceClass": "resource.k8s.io/v1",
    "Issuer": "cert-manager.io/v1",
    "Certificate": "cert-manager.io/v1",
    "Service": "v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "PodMonitor": MONITORING_API,
    "PrometheusRule": MONITORING_API,
    "PodDisruptionBudget": "policy/v1",
    "Deployment": "apps/v1",
    "DaemonSet": "apps/v1",
    # Last, so that nothing is sent to a webhook whose Deployment isn't even there.
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    "Lease": "coordination.k8s.io/v1",  # the operator creates it
}
"""Kind -> apiVersion of the objects of any version of virt-dra, so that upgrade and removal find them all, in the order
of applying; removal takes the opposite one."""
WORKLOADS: Final = ("Deployment", "DaemonSet")
_APPLY_ORDER: Final = {kind: index for index, kind in enumerate(KINDS)}


@dataclass(frozen=True)
class OptionalPart:
    """A part of virt-dra that is installed only where it is asked for. ``name`` is its folder of the manifests, too.
    ``purpose`` is a clause for help texts. ``namespace``: its own; "" for virt-dra's."""

    name: str
    purpose: str
    namespace: str = ""


PARTS: Final[Mapping[str, OptionalPart]] = {
    part.name: part
    for part in (
        # Privileged pods; and a policy names its account, so that its namespace is always this one.
        OptionalPart(
            "driver",
            "the DRA driver for devices that are passed through, on every node, in the namespace virt-dra-driver",
            DRIVER_NAMESPACE,
        ),
        OptionalPart("report", "the report as a live page, which starts once there is a Secret virt-dra-report-tls"),
        OptionalPart("keeper", "the keeper, which holds the devices of stopped VMs that keep them"),
        # It uses the network of control-plane nodes.
        OptionalPart(
            "extender",
            "the scheduler extender, on control-plane nodes, in the namespace virt-dra-extender",
            EXTENDER_NAMESPACE,
        ),
        OptionalPart(MONITORING, "a PodMonitor and alerts for the Prometheus operator, and a dashboard for Grafana"),
    )
}


def possible_namespaces(own: str) -> tuple[str, ...]:
    """The namespaces that objects of virt-dra may be in: its own, and those of parts that have another."""
    return (own, *(part.namespace for part in PARTS.values() if part.namespace))


@dataclass(frozen=True)
class Choices:
    """What the user may choose. ``image`` and ``launcher_image``: whole references, else those of the manifests.

    ``operator_arguments`` and ``webhook_arguments`` come after those of the manifests, so that theirs win.
    ``vm_namespace_label``: of the namespaces in which the operator may create pods and VMIs (standalone); None: all but
    the cluster's and its own. ``launcher_pull_secrets`` and ``launcher_priority``: what the cluster's admission gives
    to launcher pods (standalone). ``parts``: names of :data:`PARTS`.
    """

    overlay: Overlay = BESIDE_KUBEVIRT
    namespace: str = NAMESPACE
    image: str | None = None
    launcher_image: str | None = None
    cert_manager: bool = False
    operator_arguments: tuple[str, ...] = ()
    webhook_arguments: tuple[str, ...] = ()
    client_ca: bytes = b""
    """Authorities (PEM) of the certificates that API servers present to the webhook."""
    api_server_networks: tuple[str, ...] = ()
    """The only networks from which reviews may come; () for any."""
    vm_namespace_label: str | None = None
    launcher_pull_secrets: tuple[str, ...] = ()
    launcher_priority: int = 0
    parts: frozenset[str] = frozenset()
    runbooks_url: str = RUNBOOKS
    """Where the runbooks of alerts are served."""


class ObjectNameJson(TypedDict):
    """An object of a cluster."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, order=True)
class ObjectKey:
    """The identity of an object, as messages show it. ``api_version`` doesn't count: an object is the same in each
    version."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def from_object(cls, obj: Json, kind: str = "") -> ObjectKey:
        """The key of an object. ``kind``: of an item of a list, which has none of its own."""
        metadata = obj["metadata"]
        return cls(kind or obj["kind"], metadata.get("namespace", ""), metadata["name"])

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    def to_json(self) -> ObjectNameJson:
        return {"kind": self.kind, "namespace": self.namespace, "name": self.name}


def packaged() -> Read:
    """Reads the manifests that belong to this version of the package."""
    folder = files("virt_dra") / "manifests"

    def read(path: str) -> bytes | None:
        file = folder.joinpath(*path.split("/"))
        return file.read_bytes() if file.is_file() else None

    return read


def planned(choices: Choices, read: Read) -> tuple[Json, ...]:
    """All objects, in the order in which they are to be applied. Raises :class:`ManifestError`."""
    components = (*((CERT_MANAGER,) if choices.cert_manager else ()), *((CLIENT_CA,) if choices.client_ca else ()))
    objects = list(build(read, f"overlays/{choices.overlay}", components))
    if choices.client_ca:
        labels = objects[0]["metadata"]["labels"].items()
        own = {key: value for key, value in labels if key.startswith("app.kubernetes.io/")}
        objects.append(client_ca_secret(choices.namespace, choices.client_ca, own))
    elsewhere: list[Json] = []
    for part in (part for part in PARTS.values() if part.name in choices.parts):
        (elsewhere if part.namespace else objects).extend(build(read, part.name))
    moved = [installed_in(from_addresses(obj, choices.api_server_networks), choices.namespace) for obj in objects]
    chosen = [_with_arguments(_with_images(obj, choices), choices) for obj in (*moved, *elsewhere)]
    limits = _limits(choices)
    for operator in (of for of in chosen if of["kind"] == "Deployment" and of["metadata"]["name"] == OPERATOR):
        limits |= {**launcher_variables(launcher_of(operator)), **pinned_variables()}
    limited = (_with_limits(_with_runbooks(obj, choices.runbooks_url), limits) for obj in chosen)
    return tuple(sorted(limited, key=lambda obj: (_place(obj), ObjectKey.from_object(obj))))


def _place(obj: Json) -> int:
    place = _APPLY_ORDER.get(obj["kind"])
    if place is None:
        raise ManifestError(f"{ObjectKey.from_object(obj)}: its kind has no place in the order of applying")
    return place


def installed_in(obj: Json, namespace: str) -> Json:
    """The object as it is installed in another namespace than :data:`NAMESPACE`: wherever the manifests name that, as a
    name of its own or within one."""
    if namespace == NAMESPACE:
        return obj
    metadata = dict(obj["metadata"])
    if obj["kind"] == "Namespace":
        metadata["name"] = namespace
    elif "namespace" in metadata:
        metadata["namespace"] = namespace
    if "annotations" in metadata:
        metadata["annotations"] = {
            key: f"{namespace}/{value.removeprefix(f'{NAMESPACE}/')}" if key == INJECT_ANNOTATION else value
            for key, value in metadata["annotations"].items()
        }
    moved = {**obj, "metadata": metadata}
    match obj["kind"]:
        case "ClusterRoleBinding" | "RoleBinding":
            moved["subjects"] = [{**subject, "namespace": namespace} for subject in obj["subjects"]]
        case "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration":
            moved["webhooks"] = [_webhook_in(webhook, namespace) for webhook in obj["webhooks"]]
        case "ValidatingAdmissionPolicy":
            old, new = f"system:serviceaccount:{NAMESPACE}:", f"system:serviceaccount:{namespace}:"
            conditions = [
                {**condition, "expression": condition["expression"].replace(old, new)}
                for condition in obj["spec"].get("matchConditions", ())
            ]
            spec = {**obj["spec"], "matchConditions": conditions} if conditions else obj["spec"]
            moved["spec"] = _with_variables(spec, {OWN_NAMESPACE: cel_literal(namespace)})
        case "PodMonitor":
            selected = obj["spec"]["namespaceSelector"]["matchNames"]
            names = [namespace if name == NAMESPACE else name for name in selected]
            moved["spec"] = {**obj["spec"], "namespaceSelector": {"matchNames": names}}
        case "Certificate" if "dnsNames" in obj["spec"]:
            names = [name.replace(f".{NAMESPACE}.", f".{namespace}.") for name in obj["spec"]["dnsNames"]]
            moved["spec"] = {**obj["spec"], "dnsNames": names}
    return moved


def _webhook_in(webhook: Json, namespace: str) -> Json:
    client = webhook["clientConfig"]
    selector = webhook["namespaceSelector"]
    terms = [
        {**term, "values": [namespace if value == NAMESPACE else value for value in term["values"]]}
        for term in selector["matchExpressions"]
    ]
    return {
        **webhook,
        "clientConfig": {**client, "service": {**client["service"], "namespace": namespace}},
        "namespaceSelector": {**selector, "matchExpressions": terms},
    }


def _limits(choices: Choices) -> dict[str, str]:
    """Expressions of policies' variables, by name, for what the user chose."""
    limits = {
        PULL_SECRETS: cel_literal(list(choices.launcher_pull_secrets)),
        HIGHEST_PRIORITY: cel_literal(choices.launcher_priority),
    }
    if choices.vm_namespace_label is not None:
        label = cel_literal(choices.vm_namespace_label)
        limits[VM_NAMESPACE] = f"{label} in namespaceObject.metadata.?labels.orValue({{}})"
    return limits


def _with_limits(obj: Json, limits: Mapping[str, str]) -> Json:
    """A policy whose variables of these names, if it has them, have these expressions; any other object as it is."""
    if obj["kind"] != "ValidatingAdmissionPolicy":
        return obj
    return {**obj, "spec": _with_variables(obj["spec"], limits)}


def _with_variables(spec: Json, expressions: Mapping[str, str]) -> Json:
    """A policy's spec in which the variables of these names have other expressions."""
    variables = [
        {**variable, "expression": expressions.get(variable["name"], variable["expression"])}
        for variable in spec.get("variables", ())
    ]
    return {**spec, "variables": variables} if variables else spec


def _with_images(obj: Json, choices: Choices) -> Json:
    """The workload with the chosen images in its containers and in arguments ``--…image=``."""
    new = {IMAGE: choices.image, LAUNCHER_IMAGE: choices.launcher_image}
    if obj["kind"] not in WORKLOADS or not any(new.values()):
        return obj

    def replaced(image: str) -> str:
        return new.get(split_image(image)[0]) or image

    def argument(text: str) -> str:
        option, equals, value = text.partition("=")
        return f"{option}={replaced(value)}" if equals and option.endswith("image") else text

    def changed(container: Json) -> Json:
        arguments = [argument(text) for text in container["args"]]
        return {**container, "image": replaced(container["image"]), "args": arguments}

    return with_containers(obj, changed)


def _with_arguments(obj: Json, choices: Choices) -> Json:
    more = {OPERATOR: choices.operator_arguments, WEBHOOK: choices.webhook_arguments}
    added = more.get(obj["metadata"]["name"]) if obj["kind"] == "Deployment" else None
    if not added:
        return obj
    return with_containers(obj, lambda container: {**container, "args": [*container["args"], *added]})


def _with_runbooks(obj: Json, url: str) -> Json:
    """Rules whose alerts lead to their runbooks at this address; any other object as it is."""
    if obj["kind"] != "PrometheusRule":
        return obj

    def linked(rule: Json) -> Json:
        page = rule["annotations"][RUNBOOK_ANNOTATION].removeprefix(RUNBOOKS)
        return {**rule, "annotations": {**rule["annotations"], RUNBOOK_ANNOTATION: f"{url}{page}"}}

    groups = [{**group, "rules": [linked(rule) for rule in group["rules"]]} for group in obj["spec"]["groups"]]
    return {**obj, "spec": {**obj["spec"], "groups": groups}}


def is_ours(obj: Json) -> bool:
    """True if the object has our label, which every object of virt-dra has."""
    labels = obj["metadata"].get("labels") or {}
    return bool(labels.get(PART_OF_LABEL) == PART_OF)


def stale(there: Iterable[Json], wanted: Iterable[Json]) -> tuple[ObjectKey, ...]:
    """The objects of an older version that this one doesn't have, in the order of removal. ``there``: objects with our
    label.

    CRDs stay, because everything stored under them would be deleted with them. So do Namespaces, owned objects, and the
    Secrets that cert-manager makes of current Certificates.
    """
    kept = {ObjectKey.from_object(obj) for obj in wanted}
    certificates = {key.name for key in kept if key.kind == "Certificate"}
    gone = (
        ObjectKey.from_object(obj)
        for obj in there
        if is_ours(obj)
        and obj["kind"] not in ("Namespace", "CustomResourceDefinition")
        and not obj["metadata"].get("ownerReferences")
        and (obj["metadata"].get("annotations") or {}).get(CERTIFICATE_ANNOTATION) not in certificates
    )
    return removal_order(key for key in gone if key not in kept)


def removal_order(keys: Iterable[ObjectKey]) -> tuple[ObjectKey, ...]:
    """The opposite of the order of applying; kinds that are not in it come first."""
    return tuple(sorted(set(keys), key=lambda key: (-_APPLY_ORDER.get(key.kind, len(KINDS)), key)))
