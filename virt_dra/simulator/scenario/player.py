"""Performs a scenario on a cluster and records what it saw (docs/spec/scenarios.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from virt_dra.api.wire import Json
from virt_dra.cluster.port import ApiError
from virt_dra.simulator.scenario.comparing import counted
from virt_dra.simulator.scenario.normal_form import NormalForm, RawRefusal, RawState
from virt_dra.simulator.scenario.scenario import (
    CLUSTER_SCOPED,
    COMPARED,
    END,
    GIVEN,
    PLAY,
    WITH_STATUS,
    ActingUser,
    ObjectPlace,
    Scenario,
    Step,
)
from virt_dra.simulator.scenario.symbols import NoSuchSymbol, ObjectLog

CALM: Final = 1.5
"""Seconds without a change after which a cluster has settled."""
LONGEST_SETTLING: Final = 25.0
CLASSIC_CALM: Final = 2.5
"""As :data:`CALM`: a driver's answer and the pod's back-off come one after the other."""
LONGEST_CLASSIC_SETTLING: Final = 60.0
LONGEST_UNSETTLED: Final = 3.0
"""Settling of a scenario that never comes to rest."""
_LOOK: Final = 0.1


class ScenarioTarget(Protocol):
    """A cluster that a scenario is played on, empty but for the namespace ``play``. Requests raise :class:`ApiError`.
    ``user``: None for the admin. ``log``: every object of a compared kind, kept by the target."""

    log: ObjectLog
    step: int
    """The index of the step that is performed, for the log; -1 while objects are given."""

    async def get(self, place: ObjectPlace) -> Json | None:
        """The object as the admin sees it; None if it doesn't exist."""

    async def create(self, raw: Json, user: ActingUser | None) -> None:
        """Creates an object. A new Node gets its status and exactly its taints."""

    async def patch(self, place: ObjectPlace, patch: Json, *, subresource: str, user: ActingUser | None) -> None:
        """Applies a merge patch."""

    async def delete(self, place: ObjectPlace, grace: int | None, user: ActingUser | None) -> None: ...

    async def bind(self, pod: str, namespace: str, node: str, user: ActingUser | None) -> None: ...

    def drive(self, driver: str, settings: Json) -> None:
        """Change the settings of one of the scenario's drivers."""

    async def state(self) -> RawState:
        """All objects of compared kinds, and Events."""

    def now(self) -> float:
        """Cluster time in seconds."""

    def text_now(self) -> str:
        """Cluster time as Kubernetes writes it."""

    @property
    def last_change(self) -> float:
        """The time at which an object of a compared kind changed last, in cluster time."""


@dataclass
class Play:
    """A performance of a scenario, and what was recorded of it."""

    scenario: Scenario
    target: ScenarioTarget
    refusals: list[RawRefusal] = field(default_factory=list)
    states: dict[str, RawState] = field(default_factory=dict)
    unsettled: bool = False

    async def perform(self) -> Json:
        """Performs the scenario and returns the answer. Raises :class:`NoSuchSymbol` for an unknown reference."""
        self.target.step = -1
        await self._apply(self.scenario.given, GIVEN, None, PLAY)
        for index, step in enumerate(self.scenario.steps):
            self.target.step = index
            await self._step(index, step)
        await self._record(END)
        return self.answer()

    def answer(self) -> Json:
        """``{name, refusals, states, unsettled?}``."""
        claimants = {
            raw["metadata"]["name"]: raw for raw in self.scenario.applied if raw["kind"] in ("Pod", "PodGroup")
        }
        form = NormalForm(self.target.log.table(), claimants.values())
        answer: Json = {
            "name": self.scenario.name,
            "refusals": [form.refusal(refusal) for refusal in self.refusals],
            "states": {label: counted(form.state(raw), self.scenario.compare) for label, raw in self.states.items()},
        }
        return answer | ({"unsettled": True} if self.unsettled else {})

    # --- steps --------------------------------------------------------------------------------------------------------

    async def _step(self, index: int, step: Step) -> None:
        try:
            fields: Mapping[str, Any] = self.target.log.table().real(_plain(step.fields))
        except NoSuchSymbol as error:
            raise NoSuchSymbol(f"steps[{index}]: {error}") from None
        user, namespace = step.user, step.namespace
        match step.do:
            case "apply":
                await self._apply(fields["objects"], index, user, namespace)
            case "delete":
                await self._delete(index, fields["kind"], fields["name"], namespace, fields.get("grace"), user)
            case "patch":
                place = self._place(fields["kind"], fields["name"], namespace)
                part = fields.get("subresource", "")
                request = self.target.patch(place, fields["patch"], subresource=part, user=user)
                await self._asked(index, request)
            case "bind":
                await self._asked(index, self.target.bind(fields["pod"], namespace, fields["node"], user))
            case "run" | "finish":
                for pod in fields["pods"]:
                    phase = "Running" if step.do == "run" else fields.get("phase", "Succeeded")
                    await self._report(index, pod, namespace, phase, user)
            case "stop":
                for pod in fields["pods"]:
                    await self._delete(index, "Pod", pod, namespace, 0, user)
            case "device-status":
                devices = [_with_times(device, self.target.text_now()) for device in fields["devices"]]
                place = self._place("ResourceClaim", fields["claim"], namespace)
                request = self.target.patch(place, {"status": {"devices": devices}}, subresource="status", user=user)
                await self._asked(index, request)
            case "driver":
                self.target.drive(fields["name"], fields["settings"])
            case "wait":
                await asyncio.sleep(fields["seconds"])
            case "settle":
                await self._settle()
            case "observe":
                await self._record(fields["as"])

    async def _apply(self, objects: Sequence[Json], step: int | str, user: ActingUser | None, namespace: str) -> None:
        for raw in objects:
            obj = self._whole(raw, namespace)
            kind, metadata = obj["kind"], obj["metadata"]
            place = ObjectPlace(obj["apiVersion"], kind, metadata["name"], metadata.get("namespace", ""))
            status = obj.pop("status", None)
            if await self.target.get(place) is None:
                made = {**obj, "status": status} if kind == "Node" and status is not None else obj
                done = await self._asked(step, self.target.create(made, user))
                status = None if kind == "Node" else status
            else:
                done = await self._asked(step, self.target.patch(place, obj, subresource="", user=user))
            if done and status is not None and kind in WITH_STATUS:
                await self._asked(step, self.target.patch(place, {"status": status}, subresource="status", user=user))

    async def _delete(
        self, step: int, kind: str, name: str, namespace: str, grace: int | None, user: ActingUser | None
    ) -> None:
        await self._asked(step, self.target.delete(self._place(kind, name, namespace), grace, user))

    async def _report(self, step: int, pod: str, namespace: str, phase: str, user: ActingUser | None) -> None:
        """Writes into a pod's status what a kubelet writes first, or last, by one merge patch."""
        place = self._place("Pod", pod, namespace)
        raw = await self.target.get(place)
        now = self.target.text_now()
        code = 1 if phase == "Failed" else 0
        ended = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": now, "finishedAt": now}
        state = {"running": {"startedAt": now}} if phase == "Running" else {"terminated": ended}
        statuses = [
            {"name": container["name"], "image": container.get("image", ""), "imageID": "", "restartCount": 0,
                "ready": phase == "Running",
             "started": phase == "Running", "state": state}
            for container in (raw or {}).get("spec", {}).get("containers", ())
        ]  # fmt: skip
        patch = {"status": {"phase": phase, "containerStatuses": statuses}}
        await self._asked(step, self.target.patch(place, patch, subresource="status", user=user))

    async def _asked(self, step: int | str, request: Any) -> bool:
        """Whether the cluster accepted the request; a refusal is recorded."""
        try:
            await request
        except ApiError as error:
            self.refusals.append(RawRefusal(step, error.status, error.reason, str(error)))
            return False
        return True

    def _whole(self, raw: Json, namespace: str) -> Json:
        metadata = dict(raw["metadata"])
        if raw["kind"] not in CLUSTER_SCOPED:
            metadata.setdefault("namespace", namespace)
        return {**raw, "apiVersion": self.scenario.api_version_of(raw), "metadata": metadata}

    def _place(self, kind: str, name: str, namespace: str) -> ObjectPlace:
        return ObjectPlace(self.scenario.api_versions[kind], kind, name, "" if kind in CLUSTER_SCOPED else namespace)

    # --- time -------------------------------------------------------------------------------------------------------
    # -----------------------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        begin = self.target.now()
        calm, longest = (
            (CLASSIC_CALM, LONGEST_CLASSIC_SETTLING) if self.scenario.kubernetes else (CALM, LONGEST_SETTLING)
        )
        if not self.scenario.compare.settled:
            longest = LONGEST_UNSETTLED
        while self.target.now() - max(self.target.last_change, begin) < calm:
            if self.target.now() - begin >= longest:
                self.unsettled |= self.scenario.compare.settled
                return
            await asyncio.sleep(_LOOK)

    async def _record(self, label: str) -> None:
        await self._settle()
        self.states[label] = state = await self.target.state()
        for kind in COMPARED:
            for raw in state.objects.get(kind, ()):
                self.target.log.see(kind, raw, self.target.step)
                self.target.log.show(raw["metadata"]["uid"])


def _plain(value: Any) -> Any:
    """Lists in place of tuples, as in JSON."""
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _with_times(device: Json, now: str) -> Json:
    conditions = device.get("conditions")
    if not isinstance(conditions, list):
        return device
    defaults = {"reason": "Reported", "message": ""}
    return {**device, "conditions": [{**defaults, **condition, "lastTransitionTime": now} for condition in conditions]}
