"""Classic claims among the filters of the scheduler (:mod:`virt_dra.scheduling.filter_table`): the extension points of
:mod:`.extension_points` as a plugin. Pure (C-18.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from virt_dra.api.core_v1 import Pod
from virt_dra.classic.scheduling.extension_points import (
    ClassicView,
    NodeFits,
    NotNow,
    RequestDeallocation,
    SchedulingState,
    filter_node,
    post_filter,
    pre_filter,
)
from virt_dra.scheduling.claim_checks import DYNAMIC_RESOURCES
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.plugin import FilterScope, PluginAttempt, SchedulingPlugin
from virt_dra.scheduling.framework.refusals import AttemptError, FilterRefusal

PLUGIN: Final = DYNAMIC_RESOURCES


class ClaimFilter(SchedulingPlugin):
    """DynamicResources of 1.26 to 1.31. Evicting pods helps with nothing that it refuses."""

    name = PLUGIN
    scope = FilterScope.DEVICES

    def __init__(self, view: ClassicView) -> None:
        self._view = view

    def attempt(self, pod: Pod) -> ClaimAttempt | FilterRefusal:
        state = pre_filter(pod, self._view)
        if not isinstance(state, NotNow):
            return ClaimAttempt(state)
        if state.error:
            raise AttemptError(state.message)
        return FilterRefusal(PLUGIN, (state.message,))


class ClaimAttempt(PluginAttempt):
    """The claims of one pod in one attempt."""

    def __init__(self, state: SchedulingState) -> None:
        self.state = state
        self._fits: dict[str, NodeFits] = {}
        self._unavailable: set[int] = set()

    def filter(self, state: NodeState) -> FilterRefusal | None:
        verdict = filter_node(self.state, state.node)
        if isinstance(verdict, NodeFits):
            self._fits[state.name] = verdict
            return None
        self._unavailable.update(verdict.unavailable)
        return FilterRefusal(PLUGIN, (verdict.message,))

    @property
    def fits(self) -> Mapping[str, NodeFits]:
        """The nodes that the claims allow, of those that were asked for."""
        return self._fits

    def deallocation(self) -> RequestDeallocation | None:
        """What may help a pod that fits nowhere; after all nodes were filtered (PostFilter)."""
        return post_filter(self.state, self._unavailable)
