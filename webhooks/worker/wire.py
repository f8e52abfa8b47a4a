"""The messages between the server, its worker and the worker's children (:mod:`virt_dra.sandbox.messages`), on three
kinds of sockets.

* The worker's connection: changes of the replica, each of which it acknowledges.
* Control, packets from server to worker: fork a child for the socket that comes along, lower its priority, kill it.
* A socket of its own for each child: the server sends its questions, the child its answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from pydantic import ConfigDict

from virt_dra.api.resource_v1 import Device
from virt_dra.matching.published_slice import PublishedSlice, SliceDevice
from virt_dra.matching.slice_answers import (
    MAX_SELECTORS,
    QuestionKind,
    SelectorDepths,
    SelectorQuestion,
    SliceAnswer,
    SliceFault,
)
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
    """Adds a slice to the replica, under the number that questions refer to."""

    number: int
    driver: str
    devices: tuple[Device, ...]


@dataclass(frozen=True)
class DropSlices:
    """Removes slices from the replica; without any it only asks for an acknowledgement."""

    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class ChangeApplied:
    """The worker has made the next of the changes."""


ReplicaChange = PutSlice | DropSlices
REPLICA_CHANGES: Final = Messages[ReplicaChange]({PutSlice: 2**27, DropSlices: 2**24}, strict=False)
ACKNOWLEDGEMENTS: Final = Messages[ChangeApplied]({ChangeApplied: 64})


def put_slice(number: int, slice_: PublishedSlice) -> PutSlice:
    return PutSlice(number, slice_.pool[0], tuple(_readable(published.device) for published in slice_.devices))


def _readable(device: Device) -> Device:
    """What selectors can read of a device."""
    fields = ("attributes", "capacity", "allow_multiple_allocations")
    return Device(name="d", **{field: getattr(device, field) for field in fields if device.given(field)})


def apply_change(change: ReplicaChange, replica: dict[int, PublishedSlice]) -> None:
    """Apply a change to the replica of the published devices."""
    if isinstance(change, DropSlices):
        for number in change.numbers:
            replica.pop(number, None)
        return
    devices = tuple(SliceDevice(change.driver, "", device, "") for device in change.devices)
    for device in devices:
        _ = device.input  # cached here once, not computed in every child
    replica[change.number] = PublishedSlice((change.driver, ""), 0, "", devices)


# --- control ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Command:
    """What to do with a child: begin it, for the socket that comes along, lower its priority, or kill it. ``seconds``:
    to begin: after which the kernel kills it."""

    kind: Literal["begin", "slow", "kill"]
    child: int
    seconds: float = 0.0


COMMAND_BYTES: Final = 256
COMMANDS: Final = Messages[Command]({Command: COMMAND_BYTES})

# --- questions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WrittenQuestion:
    """A :class:`~virt_dra.matching.slice_answers.SelectorQuestion` with the numbers of its slices."""

    kind: QuestionKind
    expressions: tuple[str, ...]
    slices: tuple[int, ...]


@dataclass(frozen=True)
class Questions:
    """The questions of a review. ``work``: the budget for all."""

    questions: tuple[WrittenQuestion, ...]
    work: int | None


QUESTIONS: Final = Messages[Questions]({Questions: 2**27})


def written(
    questions: Iterable[SelectorQuestion], numbers: Mapping[PublishedSlice, int], work: int | None
) -> Questions:
    return Questions(
        tuple(
            WrittenQuestion(question.kind, question.expressions, tuple(numbers[slice_] for slice_ in question.slices))
            for question in questions
        ),
        work,
    )


def read(questions: Questions, replica: Mapping[int, PublishedSlice]) -> list[SelectorQuestion]:
    """The questions. Raises KeyError where the replica lacks a slice."""
    return [
        SelectorQuestion(question.kind, question.expressions, [replica[number] for number in question.slices])
        for question in questions.questions
    ]


# --- answers ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SliceAnswers:
    """The answers to a question about slices, from position ``first`` of its slices on."""

    __pydantic_config__: ClassVar = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    question: int
    first: int
    answers: tuple[SliceAnswer, ...]


@dataclass(frozen=True)
class QuestionDone:
    """There are no more answers to a question. ``fault``: the error of a selector that doesn't compile."""

    question: int
    fault: SliceFault | None = None


@dataclass(frozen=True)
class ChildDone:
    """The last message of a child. ``stopped``: the budget of work didn't suffice."""

    stopped: bool


ChildMessage = SliceAnswers | QuestionDone | ChildDone
CHILD_MESSAGES: Final = Messages[ChildMessage]({SliceAnswers: MAX_ANSWER, QuestionDone: 8192, ChildDone: 64})


def answer_messages(
    number: int, evaluated: Iterable[tuple[int, SliceAnswer | SliceFault]]
) -> Iterator[SliceAnswers | QuestionDone]:
    """The messages about a question, as its answers are found."""
    batch: list[SliceAnswer] = []
    first = devices = characters = 0
    for position, answer in evaluated:
        if isinstance(answer, SliceFault):
            yield QuestionDone(number, answer)
            return
        full = len(batch) >= BATCH or devices >= BATCH_DEVICES or characters >= BATCH_CHARACTERS
        if batch and (full or position != first + len(batch)):
            yield SliceAnswers(number, first, tuple(batch))
            batch = []
        if not batch:
            first, devices, characters = position, 0, 0
        batch.append(answer)
        if isinstance(answer, SelectorDepths):
            devices += len(answer.depths)
            characters += len(answer.fault.message) if answer.fault is not None else 0
    if batch:
        yield SliceAnswers(number, first, tuple(batch))
    yield QuestionDone(number)


def checked_fault(fault: SliceFault) -> SliceFault:
    """The error of a selector, of bounded length. Raises :class:`~virt_dra.sandbox.messages.BadMessage`."""
    return SliceFault.truncated(_index(fault.selector, MAX_SELECTORS + 1), fault.message)


def checked_answers(message: SliceAnswers, question: SelectorQuestion) -> Iterator[tuple[PublishedSlice, SliceAnswer]]:
    """The slices of a question with their answers. Raises :class:`~virt_dra.sandbox.messages.BadMessage` where they
    can't be answers to it: the child is not trusted."""
    slices: Sequence[PublishedSlice] = question.slices[_index(message.first, len(question.slices)) :]
    if len(message.answers) > len(slices):
        raise BadMessage("answers about more slices than were asked about")
    for slice_, answer in zip(slices, message.answers, strict=False):
        if isinstance(answer, bool) != (question.kind == "any"):
            raise BadMessage("an answer to another kind of question")
        yield slice_, answer if isinstance(answer, bool) else _checked_depths(answer, slice_, len(question.expressions))


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
