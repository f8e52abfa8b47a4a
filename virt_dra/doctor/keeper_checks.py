"""Doctor's check of kept devices: whether there is a keeper for the VMs that ask for it, and whether the cluster is new
enough for it. Pure: facts in, findings out.

Whether it runs, and lacks objects or permissions, is checked with all installed parts (`checks.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from virt_dra.api.counting import counted
from virt_dra.api.go_text import visible
from virt_dra.api.integration.check_findings import CheckFinding, CheckSubject
from virt_dra.doctor.facts import ClusterFacts, Unknown, unread
from virt_dra.installation.refusals import TOO_OLD_FOR_THE_KEEPER, leaves_ended_pods

_SHOWN: Final = 3


def keeper(facts: ClusterFacts) -> Iterator[CheckFinding]:
    """A finding where VMs ask to keep their devices, and nobody makes the claims that they start with; or where the
    keeper can release nothing."""
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
