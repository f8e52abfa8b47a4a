"""Doctor's checks of the scheduler extender: whether it runs, and whether kube-scheduler asks it. Pure: facts in,
findings out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from virt_dra.api.counting import counted
from virt_dra.api.integration.check_findings import CheckFinding, CheckSubject
from virt_dra.doctor.facts import ClusterFacts, Unknown, unread

GUIDE: Final = "docs/guides/extender.md"


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
            yield subject.error(message, f"where kube-scheduler isn't on nodes of the cluster: see {GUIDE}")
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
    advice = f"virt-dra extender --print-configuration http://127.0.0.1:8766; see {GUIDE}"
    return subject.warning(f"it runs, and kube-scheduler has never asked it: {why}", advice)
