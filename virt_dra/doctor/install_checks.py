"""Checks of virt-dra itself: objects, pods, webhook, certificate, RBAC permissions, leader. Pure: facts in, findings
out."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from virt_dra.api.counting import counted
from virt_dra.api.integration.check_findings import CheckFinding, CheckSubject
from virt_dra.api.integration.paths import DOMAIN
from virt_dra.api.meta import parse_time
from virt_dra.api.wire import Json
from virt_dra.doctor.caller_checks import GUIDE, verifies_callers
from virt_dra.doctor.facts import Certificate, ClusterFacts, Unknown, items, unread
from virt_dra.installation.launcher_limits import LAUNCHER_POLICY, launcher_of, launcher_variables, pinned_variables
from virt_dra.installation.plan import OPERATOR, ObjectKey
from virt_dra.installation.rollout import condition_holds, pod_troubles, rollout

INSTALL: Final = "run virt-dra install again, with the same options; it restores missing objects"
RENEW_WITHIN: Final = timedelta(days=7)
"""A certificate of 90 days is renewed when 30 are left, so that fewer than these mean that it isn't."""
KEEPS_CERTIFICATE: Final = "virt-dra-certificates"
"""The Deployment that keeps the webhook's certificate, where cert-manager doesn't."""
VERSION_LABEL: Final = "app.kubernetes.io/version"
VMI_WEBHOOK: Final = f"vmi.{DOMAIN}"


def installed(facts: ClusterFacts, own_version: str) -> Iterator[CheckFinding]:
    """Findings on missing objects, and on the installed version."""
    subject = CheckSubject("installation", "virt-dra")
    if isinstance(facts.deployments, Unknown):
        yield unread(CheckSubject("installation", "Deployments"), facts.deployments)
        return
    if not facts.deployments:
        advice = "virt-dra install --image IMAGE; with --dry-run first"
        yield subject.error("virt-dra isn't installed on this cluster", advice)
        return
    if isinstance(facts.missing, Unknown):
        yield unread(subject, facts.missing)
    for missing in items(facts.missing):
        yield CheckSubject("installation", missing).error("it is missing", INSTALL)
    versions = sorted(
        {str((deployment["metadata"].get("labels") or {}).get(VERSION_LABEL, "?")) for deployment in facts.deployments}
    )
    if versions != [own_version]:
        message = f"version {', '.join(versions)} is installed, this program is {own_version}"
        yield subject.warning(message, "upgrade with: virt-dra install; or use the program of that version")
    else:
        yield subject.ok(f"version {own_version}, overlay {facts.overlay or '?'}, in the namespace {facts.namespace}")


def crds(facts: ClusterFacts) -> Iterator[CheckFinding]:
    """Findings on CRDs that aren't served."""
    subject = CheckSubject("definitions", "CustomResourceDefinitions")
    if isinstance(facts.crds, Unknown):
        yield unread(subject, facts.crds)
        return
    for name, crd in sorted(facts.crds.items()):
        if not condition_holds(crd, "Established"):
            conditions = (crd.get("status") or {}).get("conditions") or ()
            why = "; ".join(str(of.get("message")) for of in conditions if of.get("status") == "False")
            message = f"it isn't served: {why or 'its status says nothing'}"
            where = f"CustomResourceDefinition {name}"
            yield CheckSubject("definitions", where).error(message, "correct what its status names")
    if facts.crds:
        yield subject.ok(", ".join(sorted(facts.crds)))


def workloads(facts: ClusterFacts) -> Iterator[CheckFinding]:
    """Findings on Deployments and pods that don't run."""
    for deployment in items(facts.deployments):
        key = ObjectKey.from_object(deployment, "Deployment")
        if missing := rollout(key, deployment):
            of = f"-n {key.namespace} deployment/{key.name}"
            advice = f"kubectl describe {of}; kubectl logs {of}"
            yield CheckSubject("workloads", str(key)).error(missing.removeprefix(f"{key}: "), advice)
        else:
            replicas = counted(deployment["spec"].get("replicas", 1), "replica")
            yield CheckSubject("workloads", str(key)).ok(f"{replicas} available")
    for pod in items(facts.pods):
        where = str(ObjectKey.from_object(pod, "Pod"))
        for trouble in pod_troubles(pod):
            message = trouble.removeprefix(where).lstrip(", ")
            yield CheckSubject("workloads", where).error(message, "correct what the message names")


_CERTIFICATE_REFUSED: Final = re.compile(r'failed calling webhook "(?P<name>[^"]+)".*remote error: tls: ', re.DOTALL)
"""virt-api, like other servers that verify a certificate only if they are given one, ends the connection."""


def webhook(facts: ClusterFacts) -> Iterator[CheckFinding]:
    """Findings on whether the API server reaches the webhook: configurations, endpoints, and the answer to a dry
    run."""
    if not facts.overlay:
        return
    if isinstance(facts.configurations, Unknown):
        yield unread(CheckSubject("webhook", "webhook configurations"), facts.configurations)
    for configuration in items(facts.configurations):
        entries = configuration.get("webhooks") or ()
        bare = [of["name"] for of in entries if not (of.get("clientConfig") or {}).get("caBundle")]
        if bare:
            subject = CheckSubject("webhook", str(ObjectKey.from_object(configuration)))
            advice = f"{KEEPS_CERTIFICATE} (with --cert-manager: cert-manager) writes it; see its log"
            yield subject.error(f"no caBundle for {', '.join(bare)}: the API server can't trust the webhook", advice)
    if isinstance(facts.ready_endpoints, Unknown):
        yield unread(CheckSubject("webhook", "EndpointSlices"), facts.ready_endpoints)
    elif facts.ready_endpoints == 0:
        advice = f"kubectl logs -n {facts.namespace} deployment/virt-dra-webhook"
        subject = CheckSubject("webhook", f"Service {facts.namespace}/virt-dra-webhook")
        yield subject.error("it has no ready endpoint", advice)
    yield _probe(facts)


def _probe(facts: ClusterFacts) -> CheckFinding:
    subject = CheckSubject("webhook-answer", "webhook")
    if isinstance(facts.probe, Unknown):
        return unread(subject, facts.probe)
    if f'admission webhook "{VMI_WEBHOOK}" denied the request' in facts.probe:
        return subject.ok("the API server called it for a VMI (dry run), and it answered correctly")
    if any(f'{failed} webhook "{VMI_WEBHOOK}"' in facts.probe for failed in ("failed calling", "failed to call")):
        way = "check the Service's endpoints, NetworkPolicies and firewalls on the way to port 8443, and the caBundle"
        return subject.error(f"the API server can't reach it: {facts.probe}", way)
    if refused := _CERTIFICATE_REFUSED.search(facts.probe):
        return subject.error(
            f"no VMI can be created: the webhook {refused['name']} refuses the client certificate that the API server "
            f"presents to it: {facts.probe}",
            f'in the API server\'s kubeconfig for webhooks name virt-dra-webhook.{facts.namespace}.svc, not "*", and '
            f"restart it: {GUIDE}",
        )
    if not facts.probe:
        verified = (
            "; and whether the API server presents a client certificate (the webhook's log has code 401 where not): "
            f"{GUIDE}"
        )
        return subject.error(
            "a VMI that it must deny was accepted (dry run): the API server didn't call it, or failed to and went on "
            "(failurePolicy Ignore)",
            "see the findings about the webhook's configuration, endpoints and certificate; then NetworkPolicies and "
            f"firewalls to port 8443{verified if verifies_callers(facts) else ''}",
        )
    message = f"it isn't known whether it answers: {facts.probe}"
    return subject.info(message, "try again with an account that may create VMIs")


def certificate(facts: ClusterFacts) -> Iterator[CheckFinding]:
    """Findings on the webhook's certificate: its validity, its names, and the trust in it."""
    if not facts.overlay:
        return
    subject = CheckSubject("certificate", f"Secret {facts.namespace}/virt-dra-webhook-tls")
    if isinstance(facts.certificate, Unknown):
        yield unread(subject, facts.certificate)
        return
    service = f"virt-dra-webhook.{facts.namespace}.svc"
    faults = list(_certificate_faults(facts, facts.certificate, subject, service))
    yield from faults or [subject.ok(f"valid until {facts.certificate.expires:%Y-%m-%d}, for {service}")]


def _certificate_faults(
    facts: ClusterFacts, served: Certificate, subject: CheckSubject, service: str
) -> Iterator[CheckFinding]:
    left, end = served.expires - facts.now, f"{served.expires:%Y-%m-%d %H:%M} UTC"
    log = f"kubectl logs -n {facts.namespace} deployment/{KEEPS_CERTIFICATE}"
    advice = f"{log} (with --cert-manager: kubectl describe certificate)"
    if left <= timedelta():
        yield subject.error(f"the certificate expired {end}", advice)
    elif left < RENEW_WITHIN:
        yield subject.warning(f"the certificate expires {end}, and should have been renewed", advice)
    if service not in served.dns_names:
        message = f"the certificate isn't for {service}, but for {', '.join(served.dns_names) or 'nothing'}"
        yield subject.error(message, f"delete the Secret's data; {KEEPS_CERTIFICATE} makes another")
    keys = [str(ObjectKey.from_object(configuration)) for configuration in items(facts.configurations)]
    for key in (key for key in keys if key not in served.trusted_by):
        message = "its caBundle isn't of the authority that signed the certificate"
        advice = f"{KEEPS_CERTIFICATE} corrects it when it runs (with --cert-manager: cert-manager); see its log"
        yield CheckSubject("certificate", key).error(message, advice)


def limits(facts: ClusterFacts) -> Iterator[CheckFinding]:
    """Findings on the policy for launcher pods (standalone): whether it admits those that the operator creates."""
    if facts.launcher_policy is None:
        return  # beside KubeVirt; standalone it is among the missing objects
    subject = CheckSubject("limits", f"ValidatingAdmissionPolicy {LAUNCHER_POLICY}")
    if isinstance(facts.launcher_policy, Unknown):
        yield unread(subject, facts.launcher_policy)
        return
    operator = next((of for of in items(facts.deployments) if of["metadata"]["name"] == OPERATOR), None)
    if operator is None:
        return
    listed = facts.launcher_policy["spec"].get("variables") or ()
    there = {variable.get("name"): variable.get("expression") for variable in listed}
    wrong = [
        f"{name} is {there.get(name)}, the operator's arguments say {text}"
        for name, text in launcher_variables(launcher_of(operator)).items()
        if there.get(name) != text
    ]
    wrong += (f"{name} isn't this version's" for name, text in pinned_variables().items() if there.get(name) != text)
    if wrong:
        yield subject.error(f"it refuses the pods of VMs: {'; '.join(wrong)}", f"set the variables so, or {INSTALL}")
    else:
        yield subject.ok("it lets the operator create the launcher pods that it makes")


def permissions(facts: ClusterFacts) -> Iterator[CheckFinding]:
    """Findings on RBAC permissions that the ServiceAccounts lack."""
    if not facts.overlay:
        return
    subject = CheckSubject("rights", "ServiceAccounts")
    if isinstance(facts.permissions, Unknown):
        message = f"their permissions can't be checked: {facts.permissions.why}"
        yield subject.info(message, "run doctor as an administrator")
        return
    refused: defaultdict[str, list[str]] = defaultdict(list)
    for permission in facts.permissions:
        if not permission.allowed:
            refused[permission.account].append(f"{permission.verb} {permission.resource}")
    for account, missing in sorted(refused.items()):
        subject = CheckSubject("rights", f"ServiceAccount {facts.namespace}/{account}")
        yield subject.error(f"it may not {', '.join(missing)}", INSTALL)
    if not refused:
        yield subject.ok(f"they have all {len(facts.permissions)} permissions of the manifests")


def leader(facts: ClusterFacts) -> Iterator[CheckFinding]:
    """Findings on the leader of the operators."""
    if not facts.overlay:
        return
    subject = CheckSubject("leader", f"Lease {facts.namespace}/virt-dra-operator")
    if isinstance(facts.lease, Unknown):
        yield unread(subject, facts.lease)
        return
    spec: Json = (facts.lease or {}).get("spec") or {}
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    logs = f"kubectl logs -n {facts.namespace} deployment/virt-dra-operator"
    if not holder or not renewed:
        yield subject.error("no operator leads", logs)
        return
    age = facts.now - parse_time(renewed)
    if age > timedelta(seconds=3 * float(spec.get("leaseDurationSeconds") or 15)):
        late = f"{holder} led, but hasn't renewed its Lease for {age.total_seconds():.0f} s, and nobody has taken over"
        yield subject.error(late, logs)
    else:
        yield subject.ok(f"{holder} leads")
