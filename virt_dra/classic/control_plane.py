"""The loops of a control plane of 1.26 to 1.31: its scheduler and its claim controller. Drivers run beside them."""

from __future__ import annotations

import asyncio

from virt_dra.classic.claim_controller import ClassicClaimController
from virt_dra.classic.release import NEWEST_STRUCTURED, ClassicRelease
from virt_dra.classic.scheduling.scheduler import ClassicScheduler
from virt_dra.controllers.loops.context import LoopContext


class ClassicControlPlane:
    """Implements :class:`ControlLoop`: both loops as one."""

    def __init__(self, context: LoopContext, release: ClassicRelease = NEWEST_STRUCTURED) -> None:
        self._claims = ClassicClaimController(context, release)
        self._scheduler = ClassicScheduler(context, release)

    async def run(self) -> None:
        """See :class:`ControlLoop`."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claims.run(), name="classic claims")
            group.create_task(self._scheduler.run(), name="classic scheduler")
