"""What the webhook knows of its cluster: a small port.

The webhook never asks the API server during a review. What it may need is kept in memory and never changes: who watches a cluster replaces
one state by another as a whole (the server takes a function that gives the present one), so that a review sees one state from beginning
to end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import Gates
from webhooks.verdict import Verdict

Subject = VirtualMachineInstance | VirtualMachine


class Knowledge(Protocol):
    """One state of a cluster, as reviews see it. Answers come at once."""

    @property
    def gates(self) -> Gates:
        """The KubeVirt version at hand with its feature gates."""

    def preflight(self, subject: Subject, old: Subject | None = None) -> Verdict:
        """What is found in the objects that a VM or VMI names, in its namespace only: causes deny, warnings are shown.

        Asked for objects that the rules admit. ``old`` makes it an update. :class:`webhooks.lint.Preflight` is such knowledge.
        """


@dataclass(frozen=True)
class KubeVirtOnly:
    """Knows the KubeVirt at hand and no other object."""

    gates: Gates

    def preflight(self, subject: Subject, old: Subject | None = None) -> Verdict:
        return Verdict(allowed=True)
