"""What a plugin answers: nothing, a refusal of a node or a pod, or an error that ends the attempt (C-5, status
kinds)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PluginRefusal:
    """A plugin refuses a node, or the pod everywhere. ``reasons`` are counted in the pod's condition.

    ``resolvable``: evicting pods from the node might help (plain Unschedulable), otherwise not
    (UnschedulableAndUnresolvable). ``error``: the node couldn't be decided. kube-scheduler ends the attempt then; we do
    if no other node fits (AC-9).
    """

    plugin: str
    reasons: tuple[str, ...]
    resolvable: bool = False
    error: bool = False

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)


class AttemptError(Exception):
    """Ends the attempt for the pod: it is tried again after a back-off, without waiting for an event. The text is for
    its condition."""
