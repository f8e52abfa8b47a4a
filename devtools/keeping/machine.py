"""Histories, as a state machine of Hypothesis."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from devtools.keeping.world import HELD, NODES, TEMPLATES, VMS, World
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.simulator.virtual_time import VirtualLoop

NAME = st.sampled_from(VMS)
NODE = st.sampled_from(tuple(NODES))
MINUTES = st.sampled_from((1, 20, 35, 70, 150))
DELETED = (VirtualMachine, VirtualMachineInstance, VirtualMachineInstance, ResourceClaim)
PAUSE = st.sampled_from((0.0, 0.2, 15.0))
"""Seconds after a step: into the middle of what it makes others do, or until they are done."""


class Histories(RuleBasedStateMachine):
    seen: ClassVar[Counter[str]] = Counter()
    """Why the keeper released claims, in all histories; "held": of which stopped VMs were found in calm."""

    failed: ClassVar[list[str] | None] = None
    """The first problem of each history that has some, where histories are counted; None: the first one fails."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner(loop_factory=VirtualLoop)
        self._broken = False

    def _run(self, step: Coroutine[Any, Any, None], pause: float = 0.0) -> None:
        async def followed() -> None:
            await step
            await self.world.wait(pause)

        if self._broken and self.failed is not None:
            step.close()
            return
        self._broken = True
        self._runner.run(followed())
        if self._host.done():
            self._host.result()  # an error in a loop
        problems = self.world.judge.problems
        if not problems:
            self._broken = False
        elif self.failed is None:
            raise AssertionError(problems)
        else:
            self.failed.append(problems[0])

    @initialize(
        seed=st.integers(0, 2**32 - 1), standalone=st.booleans(), old=st.sampled_from((False, False, True)),
        keeps=st.lists(st.sampled_from((True, True, True, False)), min_size=3, max_size=3),
    )  # fmt: skip
    def begin(self, seed: int, standalone: bool, old: bool, keeps: list[bool]) -> None:
        async def begun() -> None:
            self.world = World(seed, standalone=standalone, old=old)
            self._host = asyncio.create_task(self._hosted())
            self._ready, self._over = asyncio.Event(), asyncio.Event()
            await self._ready.wait()
            for name, asks in zip(VMS, keeps, strict=True):
                await self.world.create(name, keeps=asks or name == "a", own=standalone and asks, starts=True)

        self._run(begun(), 8.0)

    async def _hosted(self) -> None:
        async with self.world.running():
            self._ready.set()
            await self._over.wait()

    @rule(
        name=NAME, keeps=st.sampled_from((True, True, True, False)), own=st.booleans(), starts=st.booleans(),
        pause=PAUSE,
    )  # fmt: skip
    def create(self, name: str, keeps: bool, own: bool, starts: bool, pause: float) -> None:
        self._run(self.world.create(name, keeps=keeps, own=own and self.world.standalone, starts=starts), pause)

    @rule(name=NAME, keeps=st.booleans(), own=st.booleans(), starts=st.booleans(), pause=PAUSE)
    def replace_unseen(self, name: str, keeps: bool, own: bool, starts: bool, pause: float) -> None:
        self._run(self.world.replace_unseen(name, keeps=keeps, own=own and self.world.standalone, starts=starts), pause)

    @rule(name=NAME, runs=st.booleans(), pause=PAUSE)
    def start_or_stop(self, name: str, runs: bool, pause: float) -> None:
        self._run(self.world.start(name, runs=runs), pause)

    @rule(name=NAME, minutes=MINUTES)
    def stop_for(self, name: str, minutes: int) -> None:
        self._run(self.world.start(name, runs=False), 5.0)
        self._run(self.world.wait(60.0 * minutes))

    @rule(name=NAME, lease=st.sampled_from((30, 120)))
    def stop_in_calm_for_a_lease(self, name: str, lease: int) -> None:
        """Undisturbed, so that the release must come in time."""
        self._run(self.world.annotate(name, f"{lease}m"))
        self._run(self.world.start(name, runs=False), 5.0)
        self._run(self.world.calm())
        self._run(self.world.wait(60.0 * (lease + 10)))
        self._run(self.world.calm())

    @rule(name=NAME)
    def delete_while_the_keeper_is_away(self, name: str) -> None:
        self._run(self._disturb("stop"))
        self._run(self.world.delete(VirtualMachine, name), 60.0)
        self._run(self.world.calm())

    @rule(name=NAME)
    def restart_while_the_keeper_is_away(self, name: str) -> None:
        """For longer than the lease, which was over before the VM runs."""
        self._run(self.world.annotate(name, "30m"))
        self._run(self.world.start(name, runs=False), 5.0)
        self._run(self._disturb("stop"))
        self._run(self.world.wait(60.0 * 40))
        self._run(self.world.start(name, runs=True), 0.2)
        self._run(self.world.calm())

    @rule(name=NAME, node=NODE)
    def taint_a_stopped_vms_node(self, name: str, node: str) -> None:
        self._run(self.world.start(name, runs=False), 5.0)
        self._run(self.world.calm())
        self._run(self.world.taint(node, tainted=True), 60.0)
        self._run(self.world.calm())
        self._run(self.world.taint(node, tainted=False))

    @rule(name=NAME, held=st.sampled_from(HELD), cordoned=st.booleans(), released=st.booleans())
    def start_unseen(self, name: str, held: type[Any], cordoned: bool, released: bool) -> None:
        """The keeper's watch of a kind is late as the VM starts, on its node or waiting for it."""
        self._run(self.world.start(name, runs=False), 5.0)
        for node in NODES if cordoned else ():
            self._run(self.world.cordon(node, cordoned=True))
        self._run(self._disturb(held))
        self._run(self.world.start(name, runs=True), 5.0)
        self._run(self.world.ask_release(name) if released else self.world.annotate(name, None), 5.0)
        for node in NODES if cordoned else ():
            self._run(self.world.cordon(node, cordoned=False))
        self._run(self.world.calm())

    @rule(name=NAME, pause=PAUSE)
    def stop_and_release(self, name: str, pause: float) -> None:
        self._run(self.world.start(name, runs=False), 5.0)
        self._run(self.world.ask_release(name), pause)

    @rule(name=NAME, runs=st.booleans(), value=st.sampled_from(("true", "2h", "30m", None)), pause=PAUSE)
    def annotate_and_restart(self, name: str, runs: bool, value: str | None, pause: float) -> None:
        self._run(self.world.annotate(name, value))
        self._run(self.world.start(name, runs=False), 5.0)
        self._run(self.world.start(name, runs=runs), pause)

    @rule(node=NODE, how=st.sampled_from(("cordoned", "down", "gone")), minutes=MINUTES)
    def lose(self, node: str, how: str, minutes: int) -> None:
        """A node, of whose VMs some are stopped."""
        self._run(self.world.start("b", runs=False), 5.0)
        match how:
            case "cordoned":
                self._run(self.world.cordon(node, cordoned=True))
            case "down":
                self._run(self.world.down(node, is_down=True))
            case _:
                self._run(self.world.remove_node(node))
        self._run(self.world.wait(60.0 * minutes))

    @rule(name=NAME, kind=st.sampled_from(DELETED), pause=PAUSE)
    def delete(self, name: str, kind: type[Any], pause: float) -> None:
        self._run(self.world.delete(kind, f"{name}-gpu" if kind is ResourceClaim else name), pause)

    @rule(name=NAME, pause=PAUSE)
    def delete_pod(self, name: str, pause: float) -> None:
        self._run(self.world.delete_pod(name), pause)

    @rule(name=NAME, value=st.sampled_from(("true", "2h", "30m", "false", None, None, "soon")), pause=PAUSE)
    def annotate(self, name: str, value: str | None, pause: float) -> None:
        self._run(self.world.annotate(name, value), pause)

    @rule(name=NAME, template=st.sampled_from((*TEMPLATES, "")), pause=PAUSE)
    def use_template(self, name: str, template: str, pause: float) -> None:
        self._run(self.world.use_template(name, template), pause)

    @rule(name=st.sampled_from(TEMPLATES), other=st.booleans(), pause=PAUSE)
    def replace_template(self, name: str, other: bool, pause: float) -> None:
        self._run(self.world.replace_template(name, other=other), pause)

    @rule(name=NAME, pause=PAUSE)
    def ask_release(self, name: str, pause: float) -> None:
        self._run(self.world.ask_release(name), pause)

    @rule(name=NAME, pause=PAUSE)
    def touch(self, name: str, pause: float) -> None:
        self._run(self.world.touch(name), pause)

    @rule(node=NODE, cordoned=st.booleans(), pause=PAUSE)
    def cordon(self, node: str, cordoned: bool, pause: float) -> None:
        self._run(self.world.cordon(node, cordoned=cordoned), pause)

    @rule(node=NODE, is_down=st.booleans(), pause=PAUSE)
    def down(self, node: str, is_down: bool, pause: float) -> None:
        self._run(self.world.down(node, is_down=is_down), pause)

    @rule(node=NODE, there=st.sampled_from((True, False)), pause=PAUSE)
    def remove_or_add_node(self, node: str, there: bool, pause: float) -> None:
        self._run(self.world.add_node(node) if there else self.world.remove_node(node), pause)

    @rule(node=NODE, tainted=st.booleans(), pause=PAUSE)
    def taint(self, node: str, tainted: bool, pause: float) -> None:
        self._run(self.world.taint(node, tainted=tainted), pause)

    @rule(number=st.integers(0, 3), pause=PAUSE)
    def thieves(self, number: int, pause: float) -> None:
        self._run(self.world.thieves(number), pause)

    @rule(trouble=st.sampled_from(("rough", "smooth", "stop", "start", "full", "free", "go", *HELD)), pause=PAUSE)
    def disturb(self, trouble: str | type[Any], pause: float) -> None:
        self._run(self._disturb(trouble), pause)

    async def _disturb(self, trouble: str | type[Any]) -> None:
        match trouble:
            case "rough" | "smooth":
                self.world.disturb(rough=trouble == "rough")
            case "stop":
                self.world.stop_keeper()
            case "start":
                self.world.start_keeper()
            case "full" | "free":
                self.world.quota_full = trouble == "full"
            case "go":
                self.world.let_go()
            case type():
                self.world.hold(trouble)

    @rule(minutes=st.sampled_from((-180, -5, 5, 180)), pause=PAUSE)
    def set_clock(self, minutes: int, pause: float) -> None:
        self._run(self._set_clock(minutes), pause)

    async def _set_clock(self, minutes: int) -> None:
        self.world.set_clock(timedelta(minutes=minutes))

    @rule(minutes=MINUTES)
    def wait(self, minutes: int) -> None:
        self._run(self.world.wait(60.0 * minutes))

    @rule()
    def calm(self) -> None:
        self._run(self.world.calm())

    def teardown(self) -> None:
        try:
            if not self._broken:
                self._run(self.world.end())
                self.seen.update(self.world.metrics.reasons)
                self.seen["held"] += self.world.judge.held
        finally:
            self._over.set()
            with contextlib.suppress(Exception):  # a broken loop's error, which was raised above
                self._runner.run(asyncio.wait_for(self._host, 60))
            self._runner.close()
