"""Checks of virt-dra itself: objects, pods, webhook, certificate, RBAC permissions, leader. Pure: facts in, findings
out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from virt_dra.api.counting import counted
from virt_dra.api.integration.paths import DOMAIN
from virt_dra.api.meta import parse_time
from virt_dra.api.wire import Json
from virt_dra.doctor.caller_checks import GUIDE, verifies_callers
from virt_dra.doctor.facts import ERROR, INFO, OK, WARNING, ClusterFacts, DoctorFinding, Unknown
from virt_dra.installation.plan import (
    BESIDE_KUBEVIRT,
    LAUNCHER_POLICY,
    OPERATOR,
    ObjectKey,
    launcher_of,
    launcher_variables,
)
from virt_dra.installation.rollout import condition_holds, pod_troubles, rollout

INSTALL: Final = "run virt-dra install again, with the same options; it restores missing objects"
RENEW_WITHIN: Final = timedelta(days=7)
"""A certificate of 90 days is renewed when 30 are left, so that fewer than these mean that it isn't."""
KEEPS_CERTIFICATE: Final = "virt-dra-certificates"
"""The Deployment that keeps the webhook's certificate, where cert-manager doesn't."""
VERSION_LABEL: Final = "app.kubernetes.io/version"
VMI_WEBHOOK: Final = f"vmi.{DOMAIN}"


def installed(facts: ClusterFacts, own_version: str) -> Iterator[DoctorFinding]:
    """Findings on missing objects, and on the installed version."""
    if isinstance(facts.deployments, Unknown):
        yield _unread("installation", "Deployments", facts.deployments)
        return
    if not facts.deployments:
        yield DoctorFinding(
            "installation",
            ERROR,
            "virt-dra",
            "virt-dra isn't installed on this cluster",
            "virt-dra install --image IMAGE; with --dry-run first",
        )
        return
    if isinstance(facts.missing, Unknown):
        yield _unread("installation", "virt-dra", facts.missing)
    for missing in () if isinstance(facts.missing, Unknown) else facts.missing:
        yield DoctorFinding("installation", ERROR, missing, "it is missing", INSTALL)
    versions = sorted(
        {str((deployment["metadata"].get("labels") or {}).get(VERSION_LABEL, "?")) for deployment in facts.deployments}
    )
    if versions != [own_version]:
        message = f"version {', '.join(versions)} is installed, this program is {own_version}"
        yield DoctorFinding(
            "installation",
            WARNING,
            "virt-dra",
            message,
            "upgrade with: virt-dra install; or use the program of that version",
        )
    else:
        yield DoctorFinding(
            "installation",
            OK,
            "virt-dra",
            f"version {own_version}, overlay {facts.overlay or '?'}, in the namespace {facts.namespace}",
        )


def definitions(facts: ClusterFacts) -> Iterator[DoctorFinding]:
    """Findings on CRDs that aren't served."""
    if isinstance(facts.definitions, Unknown):
        yield _unread("definitions", "CustomResourceDefinitions", facts.definitions)
        return
    for name, crd in sorted(facts.definitions.items()):
        if not condition_holds(crd, "Established"):
            conditions = (crd.get("status") or {}).get("conditions") or ()
            why = (
                "; ".join(
                    str(condition.get("message")) for condition in conditions if condition.get("status") == "False"
                )
                or "its status says nothing"
            )
            yield DoctorFinding(
                "definitions",
                ERROR,
                f"CustomResourceDefinition {name}",
                f"it isn't served: {why}",
                "correct what its status names",
            )
    if facts.definitions:
        yield DoctorFinding("definitions", OK, "CustomResourceDefinitions", ", ".join(sorted(facts.definitions)))


def workloads(facts: ClusterFacts) -> Iterator[DoctorFinding]:
    """Findings on Deployments and pods that don't run."""
    for deployment in () if isinstance(facts.deployments, Unknown) else facts.deployments:
        key = ObjectKey.of(deployment, "Deployment")
        if missing := rollout(key, deployment):
            advice = (
                f"kubectl describe -n {key.namespace} deployment/{key.name}; kubectl "
                f"logs -n {key.namespace} deployment/{key.name}"
            )
            yield DoctorFinding("workloads", ERROR, str(key), missing.removeprefix(f"{key}: "), advice)
        else:
            yield DoctorFinding(
                "workloads", OK, str(key), f"{counted(deployment['spec'].get('replicas', 1), 'replica')} available"
            )
    for pod in () if isinstance(facts.pods, Unknown) else facts.pods:
        for trouble in pod_troubles(pod):
            where = str(ObjectKey.of(pod, "Pod"))
            yield DoctorFinding(
                "workloads", ERROR, where, trouble.removeprefix(where).lstrip(", "), "correct what the message names"
            )


def webhook(facts: ClusterFacts) -> Iterator[DoctorFinding]:
    """Findings on whether the API server reaches the webhook: configurations, endpoints, and the answer to a dry
    run."""
    if not facts.overlay:
        return
    if isinstance(facts.configurations, Unknown):
        yield _unread("webhook", "webhook configurations", facts.configurations)
    for configuration in () if isinstance(facts.configurations, Unknown) else facts.configurations:
        bare = [
            entry["name"]
            for entry in configuration.get("webhooks") or ()
            if not (entry.get("clientConfig") or {}).get("caBundle")
        ]
        if bare:
            where = str(ObjectKey.of(configuration))
            advice = f"{KEEPS_CERTIFICATE} (with --cert-manager: cert-manager) writes it; see its log"
            yield DoctorFinding(
                "webhook",
                ERROR,
                where,
                f"no caBundle for {', '.join(bare)}: the API server can't trust the webhook",
                advice,
            )
    if isinstance(facts.ready_endpoints, Unknown):
        yield _unread("webhook", "EndpointSlices", facts.ready_endpoints)
    elif facts.ready_endpoints == 0:
        where = f"Service {facts.namespace}/virt-dra-webhook"
        yield DoctorFinding(
            "webhook",
            ERROR,
            where,
            "it has no ready endpoint",
            f"kubectl logs -n {facts.namespace} deployment/virt-dra-webhook",
        )
    yield _probe(facts)


def _probe(facts: ClusterFacts) -> DoctorFinding:
    where = "webhook"
    if isinstance(facts.probe, Unknown):
        return _unread("webhook-answer", where, facts.probe)
    if f'admission webhook "{VMI_WEBHOOK}" denied the request' in facts.probe:
        return DoctorFinding(
            "webhook-answer", OK, where, "the API server called it for a VMI (dry run), and it answered correctly"
        )
    if (
        f'failed calling webhook "{VMI_WEBHOOK}"' in facts.probe
        or f'failed to call webhook "{VMI_WEBHOOK}"' in facts.probe
    ):
        advice = (
            "check the Service's endpoints, NetworkPolicies and firewalls on the way to port 8443, and the caBundle"
        )
        return DoctorFinding("webhook-answer", ERROR, where, f"the API server can't reach it: {facts.probe}", advice)
    if not facts.probe:
        message = (
            "a VMI that it must deny was accepted (dry run): the API server didn't call "
            "it, or failed to and went on (failurePolicy Ignore)"
        )
        advice = (
            "see the findings about the webhook's configuration, endpoints and certificate; "
            "then NetworkPolicies and firewalls to port 8443"
        )
        if verifies_callers(facts):
            advice += (
                "; and whether the API server presents a client certificate (the "
                f"webhook's log has code 401 where not): {GUIDE}"
            )
        return DoctorFinding("webhook-answer", ERROR, where, message, advice)
    return DoctorFinding(
        "webhook-answer",
        INFO,
        where,
        f"it isn't known whether it answers: {facts.probe}",
        "try again with an account that may create VMIs",
    )


def certificate(facts: ClusterFacts) -> Iterator[DoctorFinding]:
    """Findings on the webhook's certificate: its validity, its names, and the trust in it."""
    if not facts.overlay:
        return
    where = f"Secret {facts.namespace}/virt-dra-webhook-tls"
    if isinstance(facts.certificate, Unknown):
        yield _unread("certificate", where, facts.certificate)
        return
    served, faults = facts.certificate, False
    left = served.expires - facts.now
    if left <= timedelta():
        faults = True
        advice = f"{_log_of(facts)} (with --cert-manager: kubectl describe certificate)"
        yield DoctorFinding(
            "certificate", ERROR, where, f"the certificate expired {served.expires:%Y-%m-%d %H:%M} UTC", advice
        )
    elif left < RENEW_WITHIN:
        faults = True
        message = f"the certificate expires {served.expires:%Y-%m-%d %H:%M} UTC, and should have been renewed"
        yield DoctorFinding(
            "certificate",
            WARNING,
            where,
            message,
            f"{_log_of(facts)} (with --cert-manager: kubectl describe certificate)",
        )
    service = f"virt-dra-webhook.{facts.namespace}.svc"
    if service not in served.dns_names:
        faults = True
        message = f"the certificate isn't for {service}, but for {', '.join(served.dns_names) or 'nothing'}"
        yield DoctorFinding(
            "certificate", ERROR, where, message, f"delete the Secret's data; {KEEPS_CERTIFICATE} makes another"
        )
    configurations = () if isinstance(facts.configurations, Unknown) else facts.configurations
    for configuration in configurations:
        key = str(ObjectKey.of(configuration))
        if key not in served.trusted_by:
            faults = True
            advice = f"{KEEPS_CERTIFICATE} corrects it when it runs (with --cert-manager: cert-manager); see its log"
            yield DoctorFinding(
                "certificate", ERROR, key, "its caBundle isn't of the authority that signed the certificate", advice
            )
    if not faults:
        yield DoctorFinding("certificate", OK, where, f"valid until {served.expires:%Y-%m-%d}, for {service}")


def _log_of(facts: ClusterFacts) -> str:
    return f"kubectl logs -n {facts.namespace} deployment/{KEEPS_CERTIFICATE}"


def limits(facts: ClusterFacts) -> Iterator[DoctorFinding]:
    """Findings on the policy for launcher pods (standalone): whether it admits those that the operator creates."""
    if facts.launcher_policy is None:
        return  # beside KubeVirt; standalone it is among the missing objects
    where = f"ValidatingAdmissionPolicy {LAUNCHER_POLICY}"
    if isinstance(facts.launcher_policy, Unknown):
        yield _unread("limits", where, facts.launcher_policy)
        return
    deployments = () if isinstance(facts.deployments, Unknown) else facts.deployments
    operator = next((deployment for deployment in deployments if deployment["metadata"]["name"] == OPERATOR), None)
    if operator is None:
        return
    wanted = launcher_variables(launcher_of(operator))
    variables = {
        variable.get("name"): variable.get("expression")
        for variable in facts.launcher_policy["spec"].get("variables") or ()
    }
    wrong = [
        f"{name} is {variables.get(name)}, the operator's arguments say {text}"
        for name, text in wanted.items()
        if variables.get(name) != text
    ]
    if wrong:
        yield DoctorFinding(
            "limits",
            ERROR,
            where,
            f"it refuses the pods of VMs: {'; '.join(wrong)}",
            f"set the variables so, or {INSTALL}",
        )
    else:
        yield DoctorFinding("limits", OK, where, "it lets the operator create the launcher pods that it makes")


def rights(facts: ClusterFacts) -> Iterator[DoctorFinding]:
    """Findings on RBAC permissions that the ServiceAccounts lack."""
    if not facts.overlay:
        return
    if isinstance(facts.rights, Unknown):
        yield DoctorFinding(
            "rights",
            INFO,
            "ServiceAccounts",
            f"their permissions can't be checked: {facts.rights.why}",
            "run doctor as an administrator",
        )
        return
    refused: defaultdict[str, list[str]] = defaultdict(list)
    for right in facts.rights:
        if not right.allowed:
            refused[right.account].append(f"{right.verb} {right.resource}")
    for account, missing in sorted(refused.items()):
        where = f"ServiceAccount {facts.namespace}/{account}"
        yield DoctorFinding("rights", ERROR, where, f"it may not {', '.join(missing)}", INSTALL)
    if not refused:
        yield DoctorFinding(
            "rights", OK, "ServiceAccounts", f"they have all {len(facts.rights)} permissions of the manifests"
        )


def leader(facts: ClusterFacts) -> Iterator[DoctorFinding]:
    """Findings on the leader of the operators."""
    if not facts.overlay:
        return
    where = f"Lease {facts.namespace}/virt-dra-operator"
    if isinstance(facts.lease, Unknown):
        yield _unread("leader", where, facts.lease)
        return
    spec: Json = (facts.lease or {}).get("spec") or {}
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    if not holder or not renewed:
        yield DoctorFinding(
            "leader",
            ERROR,
            where,
            "no operator leads",
            f"kubectl logs -n {facts.namespace} deployment/virt-dra-operator",
        )
        return
    age = facts.now - parse_time(renewed)
    if age > timedelta(seconds=3 * float(spec.get("leaseDurationSeconds") or 15)):
        message = (
            f"{holder} led, but hasn't renewed its Lease for {age.total_seconds():.0f} s, and nobody has taken over"
        )
        yield DoctorFinding(
            "leader", ERROR, where, message, f"kubectl logs -n {facts.namespace} deployment/virt-dra-operator"
        )
    else:
        yield DoctorFinding("leader", OK, where, f"{holder} leads")


def wanted_configurations(overlay: str) -> tuple[str, ...]:
    """The kinds of the overlay's webhook configurations."""
    both = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
    return both if overlay == BESIDE_KUBEVIRT else both[:1]


def _unread(check: str, where: str, unknown: Unknown) -> DoctorFinding:
    return DoctorFinding(check, unknown.level, where, f"can't be read: {unknown.why}", unknown.advice)
