"""A filter is one file and one row: a toy filter in the table is asked by everyone who places a pod."""

from __future__ import annotations

import ast
import inspect
import sys
from types import ModuleType
from typing import Final

import pytest
import yaml

from devtools.fit.answers import DOES_NOT_FIT, FITS, FitAnswer
from devtools.fit.case import FitCase
from devtools.fit.comparing import compared
from devtools.fit.reference import by_filters
from devtools.fit.surfaces import SURFACES
from virt_dra.api.core_v1 import Pod
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.snapshots import snapshot_of
from virt_dra.scheduling import filter_table
from virt_dra.scheduling.dynamic_resources.device_ledger import DeviceLedger, Published
from virt_dra.scheduling.dynamic_resources.plugin import DynamicResources
from virt_dra.scheduling.framework.node_table import NodeState, NodeTable
from virt_dra.scheduling.framework.plugin import FilterScope, PluginAttempt, SchedulingPlugin
from virt_dra.scheduling.framework.refusals import FilterRefusal
from virt_dra.scheduling.policies.by_card import FirstFit
from virt_dra.scheduling.policies.placer import PolicyPlacer, card_catalog
from virt_dra.scheduling.scheduling_gates import SchedulingGates
from virt_dra.scheduling.why.distance import NODE_REASONS

NODE_IS_TOY: Final = "NodeIsToy"
LABEL: Final = "toy.example.com/refused"


class Toy(SchedulingPlugin, PluginAttempt):
    """Refuses nodes with the label."""

    name = "Toy"

    def attempt(self, pod: Pod) -> PluginAttempt:
        return self

    def filter(self, state: NodeState) -> FilterRefusal | None:
        if LABEL not in state.node.metadata.labels:
            return None
        return FilterRefusal(self.name, ("node(s) had the label",), code=NODE_IS_TOY)


DUMP: Final = """
apiVersion: v1
kind: Node
metadata:
  name: n1
  labels: {toy.example.com/refused: "yes", kubevirt.io/schedulable: "true", kubernetes.io/arch: amd64}
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
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: gpus}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0, attributes: {resource.kubernetes.io/pciBusID: {string: "0000:01:00.0"}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu, namespace: team}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: kubevirt, namespace: kubevirt}
spec: {configuration: {developerConfiguration: {featureGates: [GPUsWithDRA]}}}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: asker, namespace: team}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
  domain:
    resources: {requests: {cpu: "1", memory: 1Gi}}
    devices: {gpus: [{name: gpu, claimName: gpu, requestName: gpu}]}
"""
EVERYONE: Final = {surface.name for surface in SURFACES} - {"extender's filter"}
"""The extender is asked about nodes that kube-scheduler's own filters passed."""


def _answers() -> tuple[FitAnswer, set[str], list[dict[str, tuple[str, ...]]]]:
    case = FitCase(tuple(yaml.safe_load_all(DUMP)))
    comparisons = list(compared(case))
    asked = {name for comparison in comparisons for name in comparison.answers}
    return by_filters(case), asked, [comparison.contradictions for comparison in comparisons]


@pytest.mark.parametrize("scope", [FilterScope.NODE, FilterScope.CLUSTER])
def test_everyone_asks_a_new_filter(scope: FilterScope, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, asked, contradictions = _answers()
    assert (answer.verdict, any(contradictions)) == (FITS, False)
    assert asked >= EVERYONE
    monkeypatch.setattr(Toy, "scope", scope)
    monkeypatch.setattr(filter_table, "FILTERS", (lambda sources: Toy(), *filter_table.FILTERS))
    answer, asked, contradictions = _answers()
    assert (answer.verdict, answer.reasons) == (DOES_NOT_FIT, {"n1": NODE_IS_TOY})
    assert asked >= EVERYONE
    assert not any(contradictions)


@pytest.mark.parametrize("scope", [FilterScope.ROOM, FilterScope.DEVICES])
def test_policies_refuse_a_filter_that_they_would_not_ask(scope: FilterScope, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Toy, "scope", scope)
    monkeypatch.setattr(filter_table, "FILTERS", (lambda sources: Toy(), *filter_table.FILTERS))
    snapshot = snapshot_of(ClusterModel())
    with pytest.raises(AssertionError, match="room and devices are counted here, not asked of filters: Toy"):
        PolicyPlacer(snapshot, (), FirstFit(), card_catalog(snapshot))


def test_no_two_filters_have_one_name() -> None:
    """Hints, condition texts and rejectors find a filter by its name."""
    devices = DynamicResources({}, DeviceLedger(lambda: Published((), ())), lambda claim: ())
    filters = filter_table.scoring_filters_over(filter_table.FilterSources(NodeTable(), devices, lambda namespace: {}))
    names = [plugin.name for plugin in (*filters, SchedulingGates())]
    assert sorted(set(names)) == sorted(names)


def test_every_reason_of_a_filter_has_its_distance_and_so_its_page() -> None:
    """A reason without a distance would be as far as any, and no test would miss its page (test_reason_pages)."""
    devices = DynamicResources({}, DeviceLedger(lambda: Published((), ())), lambda claim: ())
    filters = filter_table.filters_over(filter_table.FilterSources(NodeTable(), devices, lambda namespace: {}))
    codes = {type(plugin).__name__: _codes(sys.modules[type(plugin).__module__]) for plugin in filters}
    assert all(codes.values())
    assert {name: unweighed for name, of_filter in codes.items() if (unweighed := of_filter - NODE_REASONS)} == {}
    assert _codes(sys.modules[__name__]) == {NODE_IS_TOY}
    assert NODE_IS_TOY not in NODE_REASONS  # as of a filter that has only its file and its row


def _codes(module: ModuleType) -> set[str]:
    """The codes of the refusals and reasons that a filter's module makes; "" of those without one."""
    codes: list[ast.expr | None] = []
    for call in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            if call.func.id == "FilterRefusal":
                codes.append(next((keyword.value for keyword in call.keywords if keyword.arg == "code"), None))
            elif call.func.id == "Reason":
                codes.append(call.args[0])
    return {vars(module)[code.id] if isinstance(code, ast.Name) else "" for code in codes}
