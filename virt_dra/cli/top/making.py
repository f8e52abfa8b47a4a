"""Makes the contents of the terminal from the objects of a cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from virt_dra.report_server.following import Rendered

if TYPE_CHECKING:
    from virt_dra.api.integration.attribute_keys import DriverKeys
    from virt_dra.api.meta import TypedObject
    from virt_dra.cli.top.contents import TopContents
    from virt_dra.model.cluster import ClusterModel
    from virt_dra.simulator.explaining.waiting import WaitingAnswers

_EXPLAINED: Final = 50
"""Waiting VMs and pods that are explained."""
_EXPLAIN_SECONDS: Final = 1.0
"""For judging the nodes of one, and again for its ways out."""


class TopRender:
    """Renders in the process that follows a cluster. It is pickled for that, and remembers there what was explained.
    ``namespace``: "" for all; ``keys``: of addresses."""

    def __init__(self, namespace: str, keys: tuple[DriverKeys, ...] = ()) -> None:
        self._namespace, self._keys = namespace, keys
        self._explained: WaitingAnswers | None = None

    def __call__(self, objects: Sequence[TypedObject], at: datetime, *, explain: bool) -> Rendered:
        from virt_dra.model.cluster import ClusterModel  # here, since the terminal's process knows this class, too
        from virt_dra.simulator.explaining.waiting import WaitingAnswers

        before = None if explain else self._explained or WaitingAnswers(())
        contents, waiting = made_contents(ClusterModel(objects), at, self._namespace, self._keys, before)
        if explain:
            self._explained = waiting
        document = contents.to_text().encode("utf-8", "replace")
        return Rendered(hashlib.sha256(document).hexdigest()[:32], b"", document)


def made_contents(
    model: ClusterModel,
    now: datetime,
    namespace: str,
    keys: tuple[DriverKeys, ...] = (),
    explained: WaitingAnswers | None = None,
) -> tuple[TopContents, WaitingAnswers]:
    """``explained``: answers of before, of which those are taken whose subjects wait still; None: found anew."""
    from virt_dra.allocator import FatalError
    from virt_dra.cli.top.contents import top_contents
    from virt_dra.model.feeds.admitted import as_admitted
    from virt_dra.simulator.deadline import AllocationDeadline
    from virt_dra.simulator.explaining.state import ClusterState
    from virt_dra.simulator.explaining.waiting import WaitingAnswers, still_waiting, waiting_answers

    model = as_admitted(model)
    deadline = AllocationDeadline(_EXPLAIN_SECONDS)
    if explained is not None:
        waiting = still_waiting(explained, model)
    else:
        try:
            state = ClusterState.from_model(model, deadline)
            waiting = waiting_answers(state, _EXPLAINED, lambda done, total: None, deadline.start)
        except FatalError:  # slices that can't be read: nothing is explained, and the devices say what is wrong
            waiting = WaitingAnswers(())
    return top_contents(model, waiting, now, namespace, keys), waiting
