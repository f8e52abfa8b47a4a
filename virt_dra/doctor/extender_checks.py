"""Doctor's checks of the scheduler extender: whether it runs, and whether kube-scheduler asks it. Pure: facts in,
findings out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from virt_dra.api.counting import counted
from virt_dra.doctor.facts import ERROR, OK, WARNING, ClusterFacts, DoctorFinding, Unknown

GUIDE: Final = "docs/guides/extender.md"
EXTENDER_LABEL: Final = "app.kubernetes.io/part-of=virt-dra-extender"
EXTENDER_NAMESPACE: Final = "virt-dra-extender"


def extender(facts: ClusterFacts) -> Iterator[DoctorFinding]:
    """Findings on the scheduler extender; none where it isn't installed."""
    if isinstance(facts.extenders, Unknown):
        yield DoctorFinding(
            "extender",
            facts.extenders.level,
            "extender",
            f"can't be read: {facts.extenders.why}",
            facts.extenders.advice,
        )
        return
    for daemon_set in facts.extenders:
        metadata, status = daemon_set["metadata"], daemon_set.get("status") or {}
        where = f"DaemonSet {metadata['namespace']}/{metadata['name']}"
        wanted, ready = int(status.get("desiredNumberScheduled", 0)), int(status.get("numberReady", 0))
        if not wanted:
            message = "it has no pods: no node has the label node-role.kubernetes.io/control-plane that it selects"
            yield DoctorFinding(
                "extender", ERROR, where, message, f"where kube-scheduler isn't on nodes of the cluster: see {GUIDE}"
            )
        elif ready < wanted:
            advice = (
                f"kubectl logs -n {metadata['namespace']} daemonset/{metadata['name']}; "
                "kube-scheduler goes on without it meanwhile"
            )
            yield DoctorFinding("extender", WARNING, where, f"{ready} of {counted(wanted, 'pod')} ready", advice)
        else:
            yield _asked(facts, where)


def _asked(facts: ClusterFacts, where: str) -> DoctorFinding:
    answers = facts.extender_answers
    if isinstance(answers, Unknown):
        return DoctorFinding(
            "extender", answers.level, where, f"its metrics can't be read: {answers.why}", answers.advice
        )
    total = sum(answers.values())
    if total:
        scored = answers.get("scored", 0)
        return DoctorFinding(
            "extender", OK, where, f"kube-scheduler asks it: {counted(total, 'answer')}, {scored} of them prefer a node"
        )
    message = (
        "it runs, and kube-scheduler has never asked it: its lines in kube-scheduler's configuration aren't in force"
    )
    return DoctorFinding(
        "extender",
        WARNING,
        where,
        message,
        f"virt-dra extender --print-configuration http://127.0.0.1:8766; see {GUIDE}",
    )
