"""Any history of starts, stops, deletions, changes of mind, lost nodes and a thief: nothing that a VM was promised is
lost before a release, nothing is kept that nobody owns, and no claim is left behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.controllers.keeping.histories import NODES, VMS, World
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance

HISTORIES = int(os.environ.get("HISTORIES", "30"))
NAME = st.sampled_from(VMS)


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self.world = World()
        self.run(self.world.begin())

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._runner.run(coroutine)

    @rule(name=NAME, keeps=st.sampled_from((True, True, True, False)))
    def create(self, name: str, keeps: bool) -> None:
        self.run(self.world.create_vm(name, keeps=keeps))

    @rule(name=NAME)
    def start(self, name: str) -> None:
        self.run(self.world.start(name))
        self.run(self.world.keep([name]))
        self.run(self.world.schedule())

    @rule(name=NAME)
    def start_and_stop_before_the_keeper_looks(self, name: str) -> None:
        self.run(self.world.start(name))
        self.run(self.world.schedule())
        self.stop(name)

    @rule(name=NAME)
    def stop(self, name: str) -> None:
        self.run(self.world.delete(VirtualMachineInstance, name))
        self.run(self.world.run_claims())

    @rule(name=NAME)
    def delete(self, name: str) -> None:
        self.run(self.world.delete(VirtualMachine, name))
        self.run(self.world.run_claims())

    @rule(name=NAME, keeps=st.booleans())
    def turn(self, name: str, keeps: bool) -> None:
        self.run(self.world.turn(name, keeps=keeps))

    @rule(name=NAME)
    def ask_release(self, name: str) -> None:
        self.run(self.world.ask_release(name))

    @rule(node=st.sampled_from(NODES), cordoned=st.booleans())
    def cordon(self, node: str, cordoned: bool) -> None:
        self.run(self.world.cordon(node, cordoned=cordoned))

    @rule(minutes=st.sampled_from((1, 40, 70)))
    def wait(self, minutes: int) -> None:
        self.world.now += timedelta(minutes=minutes)

    @rule()
    def keep(self) -> None:
        self.run(self.world.keep())

    @rule()
    def schedule(self) -> None:
        self.run(self.world.schedule())

    @rule()
    def steal(self) -> None:
        self.run(self.world.steal())

    @rule()
    def give_back(self) -> None:
        self.run(self.world.give_back())

    @invariant()
    def nothing_promised_is_lost(self) -> None:
        self.run(self.world.check())

    def teardown(self) -> None:
        self.run(self.world.end())
        self._runner.close()


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=HISTORIES, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
