"""Reads doctor's facts from a cluster. A fact that can't be read becomes an Unknown with the reason; decisions are made
elsewhere."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections import Counter
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from typing import TYPE_CHECKING, Final, TypeVar

from virt_dra.api.integration.check_findings import INFO, WARNING, Level
from virt_dra.api.integration.paths import PATH_ANNOTATION
from virt_dra.api.keeping.terms import KEEP_ANNOTATION
from virt_dra.api.kubevirt_v1 import API_VERSION as KUBEVIRT
from virt_dra.api.kubevirt_v1 import KubeVirt
from virt_dra.api.wire import Json, WireError
from virt_dra.cluster.port import ApiError, Forbidden, NotFound, Unavailable
from virt_dra.doctor.facts import Certificate, ClusterFacts, Permission, Unknown, items
from virt_dra.doctor.install_checks import KEEPS_CERTIFICATE
from virt_dra.installation.kustomize import ManifestError
from virt_dra.installation.launcher_limits import LAUNCHER_POLICY
from virt_dra.installation.plan import (
    BESIDE_KUBEVIRT,
    DRIVER_NAMESPACE,
    EXTENDER_NAMESPACE,
    INJECT_ANNOTATION,
    STANDALONE,
    Choices,
    ObjectKey,
    Overlay,
    packaged,
    planned,
)
from virt_dra.installation.survey import CRD, KUBEVIRTS, OURS, VMS, get_or_none, list_or_none, there

if TYPE_CHECKING:
    from virt_dra.cluster.kube.cluster import KubeCluster

T = TypeVar("T")

RESOURCE: Final = "resource.k8s.io/v1"
ADMISSION: Final = "admissionregistration.k8s.io/v1"
PROBE: Final = "virt-dra-doctor"
_FEATURE = re.compile(r'^kubernetes_feature_enabled\{name="([^"\n]+)"[^}\n]*\} ([01])$', re.MULTILINE)
_ANSWERS = re.compile(
    r'^virt_dra_extender_answers_total\{verb="prioritize",verdict="([^"\n]+)"\} ([0-9.e+]{1,30})$', re.MULTILINE
)
_EXTENDER_PORT: Final = 8767
_OURS: Final = ("virtualmachineinstancedevices.virt-dra.io", "deviceprofiles.virt-dra.io")
_AT_ONCE: Final = 8
SECONDS: Final = 180.0
"""For all facts. A server that answers slowly would take a minute for each of hundreds."""
_SLOW: Final = "the API server, or a proxy on the way, answers slowly: see its load, and run doctor again"


async def gather(cluster: KubeCluster, probe_namespace: str, seconds: float = SECONDS) -> ClusterFacts:
    """All facts, as far as they are read in time. Errors of the cluster become Unknown."""
    tried = _Trying(seconds)
    deployments = await tried(cluster.list_raw("apps/v1", "Deployment", labels=OURS))
    kubevirts = await tried(list_or_none(cluster, KUBEVIRT, "KubeVirt"))
    facts = ClusterFacts(
        now=datetime.now(UTC),
        version=await tried(_version(cluster)),
        api_versions=await tried(cluster.api_versions()),
        features=await tried(_features(cluster)),
        crds=await tried(_crds(cluster)),
        kubevirts=kubevirts,
        slices=await tried(list_or_none(cluster, RESOURCE, "ResourceSlice")),
        classes=await tried(list_or_none(cluster, RESOURCE, "DeviceClass")),
        deployments=deployments,
        drivers=await tried(cluster.list_raw("apps/v1", "DaemonSet", DRIVER_NAMESPACE, labels=OURS)),
        nodes=await tried(cluster.list_raw("v1", "Node")) if any(map(_selects_nodes, items(kubevirts))) else (),
        extenders=await tried(cluster.list_raw("apps/v1", "DaemonSet", EXTENDER_NAMESPACE, labels=OURS)),
        extender_answers=await tried(_extender_answers(cluster)),
    )
    if not facts.has_keeper:
        facts = replace(facts, keeping_vms=await tried(_keeping_vms(cluster, facts)))
    return facts if not facts.namespace else await _installed(cluster, facts, probe_namespace, tried)


async def _installed(cluster: KubeCluster, facts: ClusterFacts, probe_namespace: str, tried: _Trying) -> ClusterFacts:
    namespace, overlay = facts.namespace, facts.overlay
    configurations = await tried(_configurations(cluster))
    return replace(
        facts,
        pods=await tried(cluster.list_raw("v1", "Pod", namespace, labels=OURS)),
        configurations=configurations,
        ready_endpoints=await tried(_ready_endpoints(cluster, namespace)),
        certificate=await tried(_certificate(cluster, namespace, items(configurations))),
        lease=await tried(get_or_none(cluster, "coordination.k8s.io/v1", "Lease", "virt-dra-operator", namespace)),
        network_policy=await tried(
            get_or_none(cluster, "networking.k8s.io/v1", "NetworkPolicy", "virt-dra-webhook", namespace)
        ),
        permissions=await tried(_permissions(cluster, facts)),
        missing=await tried(_missing(cluster, facts)),
        probe=await tried(_probe(cluster, probe_namespace)),
        launcher_policy=await tried(get_or_none(cluster, ADMISSION, "ValidatingAdmissionPolicy", LAUNCHER_POLICY))
        if overlay == STANDALONE
        else None,
    )


def _selects_nodes(kubevirt: Json) -> bool:
    try:
        configuration = KubeVirt.from_wire(kubevirt).spec.configuration.mediated_devices_configuration
    except WireError:  # a finding
        return False
    return configuration is not None and bool(configuration.node_mediated_device_types)


class _Trying:
    """Asks for facts, all within so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._end = seconds, asyncio.get_running_loop().time() + seconds

    async def __call__(self, asking: Awaitable[T]) -> T | Unknown:
        try:
            async with asyncio.timeout_at(self._end):
                return await asking
        except TimeoutError:
            return Unknown(f"not read within {self._seconds:g} s, in which doctor reads everything", _SLOW)
        except (ApiError, ManifestError) as error:
            return Unknown(str(error))
        except _Unreadable as error:
            return Unknown(str(error), error.advice, error.level)


class _Unreadable(Exception):
    """An object has unexpected content, or a library to read it is missing."""

    def __init__(self, message: str, advice: str, level: Level = WARNING) -> None:
        super().__init__(message)
        self.advice, self.level = advice, level


async def _version(cluster: KubeCluster) -> str:
    return str((await cluster.server_version()).get("gitVersion", "?"))


async def _features(cluster: KubeCluster) -> Mapping[str, bool]:
    return enabled_features(await cluster.metrics_text())


def enabled_features(metrics: str) -> Mapping[str, bool]:
    """The API server's feature gates, by its metrics."""
    return {name: value == "1" for name, value in _FEATURE.findall(metrics)}


async def _extender_answers(cluster: KubeCluster) -> Mapping[str, int]:
    """The extender's answers, summed over its pods. A pod without metrics, such as one that is starting, has given
    none."""
    answers: Counter[str] = Counter()
    for pod in await cluster.list_raw("v1", "Pod", EXTENDER_NAMESPACE, labels=OURS):
        metadata = pod["metadata"]
        try:
            text = await cluster.pod_text(metadata["namespace"], metadata["name"], _EXTENDER_PORT, "metrics")
        except (NotFound, Unavailable):
            continue
        answers.update(extender_answers(text))
    return answers


def extender_answers(metrics: str) -> Mapping[str, int]:
    """The answers to kube-scheduler's requests for priorities, by verdict, from the extender's metrics."""
    return {verdict: int(float(count)) for verdict, count in _ANSWERS.findall(metrics)}


async def _crds(cluster: KubeCluster) -> Mapping[str, Json]:
    read = {name: await get_or_none(cluster, *CRD, name) for name in (KUBEVIRTS, *VMS, *_OURS)}
    return {name: crd for name, crd in read.items() if crd is not None}


async def _configurations(cluster: KubeCluster) -> Sequence[Json]:
    kinds = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
    read = [await get_or_none(cluster, ADMISSION, kind, "virt-dra") for kind in kinds]
    return [configuration for configuration in read if configuration is not None]


async def _ready_endpoints(cluster: KubeCluster, namespace: str) -> int:
    slices = await cluster.list_raw(
        "discovery.k8s.io/v1", "EndpointSlice", namespace, labels="kubernetes.io/service-name=virt-dra-webhook"
    )
    # As in Kubernetes: an endpoint without the condition counts as ready.
    return sum(
        (endpoint.get("conditions") or {}).get("ready") is not False
        for slice_ in slices
        for endpoint in slice_.get("endpoints") or ()
    )


async def _certificate(cluster: KubeCluster, namespace: str, configurations: Iterable[Json]) -> Certificate:
    secret = await get_or_none(cluster, "v1", "Secret", "virt-dra-webhook-tls", namespace)
    encoded = ((secret or {}).get("data") or {}).get("tls.crt")
    if not encoded:
        advice = f"{KEEPS_CERTIFICATE} makes one (or cert-manager); see its log"
        raise _Unreadable("there is no certificate in it", advice)
    try:
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature
    except ModuleNotFoundError:
        advice = "install it with: pip install 'virt-dra[webhook]'"
        raise _Unreadable("this needs the library cryptography", advice, INFO) from None
    try:
        served = x509.load_pem_x509_certificates(base64.b64decode(encoded))[0]
    except (ValueError, IndexError, binascii.Error) as error:
        advice = f"delete the Secret's data; {KEEPS_CERTIFICATE} makes another"
        raise _Unreadable(f"tls.crt is no certificate: {error}", advice) from None

    def signs(bundle: str) -> bool:
        try:
            authorities = x509.load_pem_x509_certificates(base64.b64decode(bundle))
        except (ValueError, binascii.Error):
            return False
        for authority in authorities:
            try:
                served.verify_directly_issued_by(authority)
            except (ValueError, TypeError, InvalidSignature):
                continue
            return True
        return False

    def trusts(configuration: Json) -> bool:
        clients = [webhook.get("clientConfig") or {} for webhook in configuration.get("webhooks") or ()]
        return all(signs(str(client.get("caBundle") or "")) for client in clients)

    try:
        alternative = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = alternative.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        names = []
    trusting = tuple(str(ObjectKey.from_object(of)) for of in configurations if trusts(of))
    return Certificate(served.not_valid_after_utc, tuple(names), trusting)


# --- permissions and objects of the manifests -------------------------------------------------------------------


async def _keeping_vms(cluster: KubeCluster, facts: ClusterFacts) -> Sequence[str]:
    try:
        vms = await cluster.list_raw(KUBEVIRT, "VirtualMachine")
    except NotFound:  # the cluster doesn't serve VMs
        return ()
    alone = facts.overlay == STANDALONE
    return [f"{vm['metadata'].get('namespace', '')}/{vm['metadata']['name']}" for vm in vms if asks_to_keep(vm, alone)]


def asks_to_keep(vm: Json, standalone: bool) -> bool:
    """Whether a VM says so where that is heard: in its template, without KubeVirt in its own metadata, too (P-10). What
    its instancetype or a profile says isn't looked up."""
    template = (vm.get("spec") or {}).get("template") or {}
    places = [(obj.get("metadata") or {}).get("annotations") or {} for obj in (template, vm)[: 2 if standalone else 1]]
    return next((texts[KEEP_ANNOTATION] for texts in places if KEEP_ANNOTATION in texts), "false") != "false"


async def _wanted(cluster: KubeCluster, facts: ClusterFacts) -> Sequence[Json]:
    """The manifests of the installed overlay, with cert-manager if its annotation is there, and the keeper if its
    Deployment is."""
    overlay: Overlay = BESIDE_KUBEVIRT if facts.overlay == BESIDE_KUBEVIRT else STANDALONE
    parts = frozenset({"keeper"} if facts.has_keeper else ())
    configuration = await get_or_none(cluster, ADMISSION, "ValidatingWebhookConfiguration", "virt-dra")
    cert_manager = INJECT_ANNOTATION in ((configuration or {"metadata": {}})["metadata"].get("annotations") or {})
    return planned(Choices(overlay, facts.namespace, cert_manager=cert_manager, parts=parts), packaged())


async def _missing(cluster: KubeCluster, facts: ClusterFacts) -> Sequence[str]:
    wanted = await _wanted(cluster, facts)
    limit = asyncio.Semaphore(_AT_ONCE)

    async def missing(obj: Json) -> bool:
        async with limit:
            return await there(cluster, obj) is None

    gone = await asyncio.gather(*(missing(obj) for obj in wanted))
    return [str(ObjectKey.from_object(obj)) for obj, is_gone in zip(wanted, gone, strict=True) if is_gone]


def attributes(objects: Sequence[Json], namespace: str) -> Iterator[tuple[str, Json]]:
    """Account and resourceAttributes of every permission that the roles among the objects grant."""
    roles = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects if obj["kind"] in ("Role", "ClusterRole")}
    for binding in (obj for obj in objects if obj["kind"] in ("RoleBinding", "ClusterRoleBinding")):
        rules = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]["rules"]
        within = {"namespace": namespace} if binding["kind"] == "RoleBinding" else {}
        for account, rule in product(binding["subjects"], rules):
            names = rule.get("resourceNames", [""])
            for verb, group, path, name in product(rule["verbs"], rule["apiGroups"], rule["resources"], names):
                resource, _, subresource = path.partition("/")
                of = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "name": name}
                given = {**of, **within}
                yield account["name"], {key: value for key, value in given.items() if value}


async def _permissions(cluster: KubeCluster, facts: ClusterFacts) -> Sequence[Permission]:
    namespace = facts.namespace
    limit = asyncio.Semaphore(_AT_ONCE)

    async def asked(account: str, given: Json) -> Permission:
        user = f"system:serviceaccount:{namespace}:{account}"
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        spec = {"user": user, "groups": groups, "resourceAttributes": given}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}, "spec": spec}
        async with limit:
            answer = await cluster.create_raw(review)
        resource = given["resource"] + (f"/{given['subresource']}" if "subresource" in given else "")
        named = f"{resource}.{given['group']}" if "group" in given else resource
        subject = f"{named} {given['name']}" if "name" in given else named
        return Permission(account, given["verb"], subject, bool(answer["status"].get("allowed")))

    everything = attributes(await _wanted(cluster, facts), namespace)
    return await asyncio.gather(*(asked(account, given) for account, given in everything))


# --- the dry run for the webhook --------------------------------------------------------------------------------------


def probe(namespace: str) -> Json:
    """A VMI that only virt-dra's webhook denies: its integration path doesn't exist."""
    metadata = {"name": PROBE, "namespace": namespace, "annotations": {PATH_ANNOTATION: PROBE}}
    domain = {"devices": {}, "resources": {"requests": {"memory": "64Mi"}}}
    return {"apiVersion": KUBEVIRT, "kind": "VirtualMachineInstance", "metadata": metadata, "spec": {"domain": domain}}


async def _probe(cluster: KubeCluster, namespace: str) -> str | Unknown:
    try:
        await cluster.create_raw(probe(namespace), dry_run=True)
    except (NotFound, Forbidden) as error:
        text = str(error)
        return text if "admission webhook" in text else Unknown(text)
    except ApiError as error:
        return str(error)
    return ""
