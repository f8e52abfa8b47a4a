"""The messages between the server, its worker and the worker's children (:mod:`virt_dra.sandbox.messages`), on three
kinds of sockets.

* The worker's connection: changes of the replica, each of which it acknowledges.
* Control, packets from server to worker: fork a child for the socket that comes along, lower its priority, kill it.
* A socket of its own for each child: the server sends its questions, the child its answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Final, Literal

from pydantic import ConfigDict

from virt_dra.api.resource_v1 import Device
from virt_dra.cel import Work
from virt_dra.matching.evaluating import compiled, depths_on, matching_slices
from virt_dra.matching.positions import mask_bytes, mask_from
from virt_dra.matching.published_slice import PublishedSlice, SliceDevice
from virt_dra.matching.slice_answers import (
    MAX_SELECTORS,
    DepthsQuestion,
    DriversQuestion,
    SelectorDepths,
    SelectorQuestion,
    SliceFault,
)
from virt_dra.matching.slice_table import SliceGroups, SliceTable
from virt_dra.sandbox.messages import BadMessage, Messages

MAX_ANSWER: Final = 256 * 1024
"""Bytes of one message of a child."""
BATCH: Final = 64
BATCH_DEVICES: Final = 500
BATCH_CHARACTERS: Final = 16_000
"""Most slices, devices, and characters of messages (of 12 bytes at most, escaped) in one message, but for its last
slice.

Messages are short because those sent before a child is killed are still used.
"""

# --- the replica --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PutSlice:
    """Adds a slice to the replica, in place of one that had its position."""

    position: int
    driver: str
    devices: tuple[Device, ...]


@dataclass(frozen=True)
class DropSlices:
    """Removes slices from the replica; without any it only asks for an acknowledgement."""

    positions: tuple[int, ...] = ()


@dataclass(frozen=True)
class ChangeApplied:
    """The worker has made the next of the changes."""


ReplicaChange = PutSlice | DropSlices
REPLICA_CHANGES: Final = Messages[ReplicaChange]({PutSlice: 2**27, DropSlices: 2**24}, strict=False)
ACKNOWLEDGEMENTS: Final = Messages[ChangeApplied]({ChangeApplied: 64})


def put_slice(slice_: PublishedSlice) -> PutSlice:
    return PutSlice(slice_.position, slice_.pool[0], tuple(_readable(published.device) for published in slice_.devices))


def _readable(device: Device) -> Device:
    """What selectors can read of a device."""
    fields = ("attributes", "capacity", "allow_multiple_allocations")
    return Device(name="d", **{field: getattr(device, field) for field in fields if device.given(field)})


def apply_change(change: ReplicaChange, replica: SliceTable) -> None:
    """Apply a change to the replica of the published devices."""
    if isinstance(change, DropSlices):
        for position in change.positions:
            replica.drop(position)
        return
    devices = tuple(SliceDevice(change.driver, "", device, "") for device in change.devices)
    for device in devices:
        _ = device.input  # cached here once, not computed in every child
    replica.put(PublishedSlice((change.driver, ""), 0, "", devices, change.position))


# --- control ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Command:
    """What to do with a child: begin it, for the socket that comes along, lower its priority, or kill it.

    ``processor_seconds``, ``seconds``: of the processor, and of the clock, after which the kernel kills one that began.
    """

    kind: Literal["begin", "slow", "kill"]
    child: int
    processor_seconds: float = 0.0
    seconds: float = 0.0


COMMAND_BYTES: Final = 256
COMMANDS: Final = Messages[Command]({Command: COMMAND_BYTES})

# --- questions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WrittenQuestion:
    """A :class:`~virt_dra.matching.slice_answers.SelectorQuestion`. ``depths``: the positions of a DepthsQuestion's
    slices; ``drivers``: the mask of a DriversQuestion."""

    __pydantic_config__: ClassVar = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    expressions: tuple[str, ...]
    depths: tuple[int, ...] = ()
    drivers: bytes = b""

    @classmethod
    def from_question(cls, question: SelectorQuestion) -> WrittenQuestion:
        if isinstance(question, DepthsQuestion):
            return cls(question.expressions, tuple(slice_.position for slice_ in question.slices))
        drivers = mask_bytes(question.positions) if isinstance(question, DriversQuestion) else b""
        return cls(question.expressions, drivers=drivers)


@dataclass(frozen=True)
class Questions:
    """The questions of a review. ``work``: the budget for all."""

    questions: tuple[WrittenQuestion, ...]
    work: int | None


QUESTIONS: Final = Messages[Questions]({Questions: 2**27})

# --- answers ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SliceDepths:
    """The depths on slices, from position ``first`` of the question's slices on."""

    __pydantic_config__: ClassVar = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    question: int
    first: int
    depths: tuple[SelectorDepths, ...]


@dataclass(frozen=True)
class SlicesMatched:
    """Masks of slices that have been evaluated, and of those among them with a device that matches."""

    question: int
    answered: bytes = b""
    matching: bytes = b""


@dataclass(frozen=True)
class QuestionDone:
    """There are no more answers to a question. ``fault``: the error of a selector that doesn't compile."""

    question: int
    fault: SliceFault | None = None


@dataclass(frozen=True)
class ChildDone:
    """The last message of a child. ``stopped``: the budget of work didn't suffice. ``processor_seconds``: what it has
    used."""

    stopped: bool
    processor_seconds: float


ChildMessage = SliceDepths | SlicesMatched | QuestionDone | ChildDone
CHILD_MESSAGES: Final = Messages[ChildMessage](
    {SliceDepths: MAX_ANSWER, SlicesMatched: MAX_ANSWER, QuestionDone: 8192, ChildDone: 128}
)


def answers(questions: Questions, replica: SliceTable) -> Iterator[ChildMessage]:
    """The messages about questions, as answers are found; slices that the replica lacks are left out. Raises
    Interrupted."""
    work = Work(questions.work)
    groups = SliceGroups(replica)
    slices = replica.slices
    for number, question in enumerate(questions.questions):
        selectors = compiled(question.expressions, work)
        if isinstance(selectors, SliceFault):
            yield QuestionDone(number, selectors)
            continue
        at = [place for place, position in enumerate(question.depths) if position in slices]
        on_slices = depths_on(selectors, (slices[question.depths[place]] for place in at), work)
        yield from depths_messages(number, zip(at, (depths for _, depths in on_slices), strict=True))
        if question.drivers:
            for answered, matching in matching_slices(selectors, groups, mask_from(question.drivers), work):
                yield SlicesMatched(number, mask_bytes(answered), mask_bytes(matching))
        yield QuestionDone(number)


def depths_messages(number: int, evaluated: Iterable[tuple[int, SelectorDepths]]) -> Iterator[SliceDepths]:
    """The messages about depths, each with its position in the question."""
    batch: list[SelectorDepths] = []
    first = devices = characters = 0
    for position, depths in evaluated:
        full = len(batch) >= BATCH or devices >= BATCH_DEVICES or characters >= BATCH_CHARACTERS
        if batch and (full or position != first + len(batch)):
            yield SliceDepths(number, first, tuple(batch))
            batch = []
        if not batch:
            first, devices, characters = position, 0, 0
        batch.append(depths)
        devices += len(depths.depths)
        characters += len(depths.fault.message) if depths.fault is not None else 0
    if batch:
        yield SliceDepths(number, first, tuple(batch))


def checked_fault(fault: SliceFault) -> SliceFault:
    """The error of a selector, of bounded length. Raises :class:`~virt_dra.sandbox.messages.BadMessage`."""
    return SliceFault.truncated(_index(fault.selector, MAX_SELECTORS + 1), fault.message)


def checked_depths(message: SliceDepths, question: SelectorQuestion) -> Iterator[tuple[PublishedSlice, SelectorDepths]]:
    """The slices of a question with their depths. Raises :class:`~virt_dra.sandbox.messages.BadMessage` where they
    can't be answers to it: the child is not trusted."""
    if not isinstance(question, DepthsQuestion):
        raise BadMessage("an answer to another kind of question")
    first = _index(message.first, len(question.slices))
    if len(message.depths) > len(question.slices) - first:
        raise BadMessage("answers about more slices than were asked about")
    for slice_, depths in zip(islice(question.slices, first, None), message.depths, strict=False):
        yield slice_, _checked_depths(depths, slice_, len(question.expressions))


def checked_masks(message: SlicesMatched, question: SelectorQuestion) -> tuple[int, int]:
    """The masks of what is answered and of what matches. Raises :class:`~virt_dra.sandbox.messages.BadMessage` where
    they can't be answers to the question."""
    answered, matching = mask_from(message.answered), mask_from(message.matching)
    if not isinstance(question, DriversQuestion) or answered & ~question.positions or matching & ~answered:
        raise BadMessage("answers about other slices than were asked about")
    return answered, matching


def _checked_depths(answer: SelectorDepths, slice_: PublishedSlice, selectors: int) -> SelectorDepths:
    if len(answer.depths) != len(slice_.devices) or max(answer.depths, default=0) > selectors:
        raise BadMessage("not the depths of this slice")
    fault = answer.fault
    if fault is None:
        return answer
    # A device that can't be converted fails on the first selector.
    device = _index(-1 if fault.device is None else fault.device, len(answer.depths))
    return SelectorDepths(answer.depths, SliceFault.truncated(_index(fault.selector, selectors), fault.message, device))


def _index(value: int, end: int) -> int:
    if not 0 <= value < end:
        raise BadMessage("a position out of range")
    return value
