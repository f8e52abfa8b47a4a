"""Doctor's checks of parts that needn't be installed: whether the scheduler extender runs and kube-scheduler asks it,
and whether VMs that keep their devices have a keeper. Pure: facts in, findings out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from virt_dra.api.counting import counted
from virt_dra.api.go_text import visible
from virt_dra.api.integration.check_findings import CheckFinding, CheckSubject
from virt_dra.doctor.facts import ClusterFacts, Unknown, unread
from virt_dra.installation.refusals import TOO_OLD_FOR_THE_KEEPER, leaves_ended_pods

_GUIDE: Final = "docs/guides/extender.md"
_SHOWN: Final = 3


def extender(facts: ClusterFacts) -> Iterator[CheckFinding]:
    """Findings on the scheduler extender; none where it isn't installed."""
    if isinstance(facts.extenders, Unknown):
        yield unread(CheckSubject("extender", "extender"), facts.extenders)
        return
    for daemon_set in facts.extenders:
        metadata, status = daemon_set["metadata"], daemon_set.get("status") or {}
        subject = CheckSubject("extender", f"DaemonSet {metadata['namespace']}/{metadata['name']}")
        wanted, ready = int(status.get("desiredNumberScheduled", 0)), int(status.get("numberReady", 0))
        if not wanted:
            message = "it has no pods: no node has the label node-role.kubernetes.io/control-plane that it selects"
            yield subject.error(message, f"where kube-scheduler isn't on nodes of the cluster: see {_GUIDE}")
        elif ready < wanted:
            logs = f"kubectl logs -n {metadata['namespace']} daemonset/{metadata['name']}"
            message = f"{ready} of {counted(wanted, 'pod')} ready"
            yield subject.warning(message, f"{logs}; kube-scheduler goes on without it meanwhile")
        else:
            yield _asked(facts.extender_answers, subject)


def _asked(answers: Mapping[str, int] | Unknown, subject: CheckSubject) -> CheckFinding:
    if isinstance(answers, Unknown):
        return unread(subject, answers, prefix="its metrics can't be read: ")
    if total := sum(answers.values()):
        scored = answers.get("scored", 0)
        return subject.ok(f"kube-scheduler asks it: {counted(total, 'answer')}, {scored} of them prefer a node")
    why = "its lines in kube-scheduler's configuration aren't in force"
    advice = f"virt-dra extender --print-configuration http://127.0.0.1:8766; see {_GUIDE}"
    return subject.warning(f"it runs, and kube-scheduler has never asked it: {why}", advice)


def keeper(facts: ClusterFacts) -> Iterator[CheckFinding]:
    """A finding where VMs ask to keep their devices, and nobody makes the claims that they start with; or where the
    keeper can release nothing. Whether it runs is checked with all installed parts (`install_checks.py`)."""
    subject = CheckSubject("keeper", "keeper")
    if facts.has_keeper and not isinstance(facts.version, Unknown) and leaves_ended_pods(facts.version):
        yield subject.error(TOO_OLD_FOR_THE_KEEPER.format(facts.version), "upgrade to Kubernetes 1.36")
    if not facts.overlay or facts.has_keeper:
        return
    if isinstance(facts.keeping_vms, Unknown):
        yield unread(subject, facts.keeping_vms, prefix="whether VMs ask to keep their devices can't be read: ")
    elif facts.keeping_vms:
        named = ", ".join(map(visible, facts.keeping_vms[:_SHOWN])) + (", …" if len(facts.keeping_vms) > _SHOWN else "")
        number = counted(len(facts.keeping_vms), "VM")
        message = f"there is none, and {number} with virt-dra.io/keep-devices can't start without it: {named}"
        yield subject.error(message, "virt-dra install --keeper, with the options of the first time")
