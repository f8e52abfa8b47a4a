"""The plugin SchedulingGates: holds back pods with scheduling gates. The API server writes their condition."""

from __future__ import annotations

from virt_dra.api.core_v1 import Pod
from virt_dra.scheduling.framework.events import ClusterEvent, Hint
from virt_dra.scheduling.framework.plugin import SchedulingPlugin
from virt_dra.scheduling.framework.refusals import FilterRefusal


class SchedulingGates(SchedulingPlugin):
    """Keeps a pod out of the queue while it has a gate."""

    name = "SchedulingGates"

    hints = (Hint(frozenset({ClusterEvent.TARGET_POD_GATES})),)

    def pre_enqueue(self, pod: Pod) -> FilterRefusal | None:
        gates = [gate.name for gate in pod.spec.scheduling_gates]
        return FilterRefusal(self.name, (f"waiting for scheduling gates: [{' '.join(gates)}]",)) if gates else None
