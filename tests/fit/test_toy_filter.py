"""A filter is one file and one row: a toy filter in the table is asked by everyone who places a pod."""

from __future__ import annotations

from typing import Final

import pytest
import yaml

from devtools.fit.answers import DOES_NOT_FIT
from devtools.fit.case import FitCase
from devtools.fit.comparing import compared
from devtools.fit.reference import by_filters
from virt_dra.api.core_v1 import Pod
from virt_dra.scheduling import filter_table
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.plugin import PluginAttempt, SchedulingPlugin
from virt_dra.scheduling.framework.refusals import FilterRefusal

MAINTENANCE: Final = "NodeInMaintenance"


class Maintenance(SchedulingPlugin, PluginAttempt):
    """Refuses nodes with the label ``maintenance``."""

    name = "Maintenance"

    def attempt(self, pod: Pod) -> PluginAttempt:
        return self

    def filter(self, state: NodeState) -> FilterRefusal | None:
        if "maintenance" not in state.node.metadata.labels:
            return None
        return FilterRefusal(self.name, ("node(s) were in maintenance",), code=MAINTENANCE)


@pytest.fixture(autouse=True)
def _in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_table, "FILTERS", (lambda sources: Maintenance(), *filter_table.FILTERS))


DUMP: Final = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {maintenance: "yes"}}
status:
  allocatable:
    {cpu: "4", memory: 16Gi, pods: "110", devices.kubevirt.io/kvm: 1k, devices.kubevirt.io/tun: 1k,
    devices.kubevirt.io/vhost-net: 1k}
---
apiVersion: v1
kind: Pod
metadata: {name: running, namespace: team, uid: running}
spec: {nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}
status: {phase: Running}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: asker, namespace: team}
spec: {domain: {resources: {requests: {cpu: "1", memory: 1Gi}}, devices: {}}}
"""


def test_everyone_asks_a_new_filter() -> None:
    case = FitCase(tuple(yaml.safe_load_all(DUMP)))
    answer = by_filters(case)
    assert (answer.verdict, answer.reasons) == (DOES_NOT_FIT, {"n1": MAINTENANCE})
    comparisons = list(compared(case))
    assert {name for comparison in comparisons for name in comparison.answers} >= {
        "scenario", "run", "pytest plugin", "lint", "explain", "diff",
    }  # fmt: skip
    assert not any(comparison.contradictions for comparison in comparisons)
