"""The protocol between the server, its worker and the worker's children: three kinds of sockets.

* Control, commands of a fixed size, server to worker: fork a child for the socket that comes along, lower its priority,
  kill it.
* Data, frames (length, JSON), server to worker: slices. The worker acknowledges each with one byte; if it fails it
  writes the reason.
* A socket of its own for each child: the server writes its questions and closes its side, the child writes answers, one
  JSON object a line.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from virt_dra.api.resource_v1 import Device
from virt_dra.matching.published_slice import PublishedSlice, SliceDevice
from virt_dra.matching.slice_answers import MAX_SELECTORS, SelectorDepths, SelectorQuestion, SliceAnswer, SliceFault

BEGIN: Final = 1
SLOW: Final = 2
KILL: Final = 3
_COMMAND: Final = struct.Struct("!BQd")
COMMAND_BYTES: Final = _COMMAND.size
LENGTH: Final = struct.Struct("!I")
APPLIED: Final = b"\0"
MAX_LINE: Final = 256 * 1024
"""Bytes of one line of answers."""
BATCH: Final = 64
BATCH_DEVICES: Final = 500
BATCH_CHARACTERS: Final = 16_000
"""Most slices, devices, and characters of messages (of 12 bytes at most, escaped) in one line of answers, but for its
last slice.

Lines are short because those written before a child is killed are still used.
"""


class BadAnswer(Exception):
    """A child wrote something that can't be an answer to its questions."""


@dataclass(frozen=True)
class Command:
    """A message on the control socket. ``seconds``: for BEGIN, the time after which the kernel kills the child."""

    kind: int
    child: int
    seconds: float = 0.0

    def encoded(self) -> bytes:
        return _COMMAND.pack(self.kind, self.child, self.seconds)

    @classmethod
    def decoded(cls, data: bytes) -> Command:
        return cls(*_COMMAND.unpack(data))


# --- slices
# -------------------------------------------------------------------------------------------------------------


def put_frame(number: int, slice_: PublishedSlice) -> bytes:
    """The frame that adds a slice to the replica: what selectors can read of its devices, under the number that
    questions refer to."""
    devices = [_seen(each.device) for each in slice_.devices]
    return _frame({"put": number, "driver": slice_.pool[0], "devices": devices})


def gone_frame(numbers: Sequence[int]) -> bytes:
    """The frame that removes slices from the replica; without any it only asks for an acknowledgement."""
    return _frame({"gone": list(numbers)})


def _frame(message: dict[str, Any]) -> bytes:
    encoded = json.dumps(message, separators=(",", ":")).encode()
    return LENGTH.pack(len(encoded)) + encoded


def _seen(device: Device) -> dict[str, Any]:
    attributes = {name: value.to_wire() for name, value in device.attributes.items()}
    found: dict[str, Any] = {
        "attributes": attributes,
        "capacity": {name: each.to_wire() for name, each in device.capacity.items()},
    }
    if device.allow_multiple_allocations:
        found["allowMultipleAllocations"] = True
    return found


def apply_frame(message: dict[str, Any], replica: dict[int, PublishedSlice]) -> None:
    """Apply a frame to the replica of the published devices."""
    for number in message.get("gone", ()):
        replica.pop(number, None)
    if "put" in message:
        driver = message["driver"]
        devices = tuple(
            SliceDevice(driver, "", Device.from_wire({"name": "d", **raw}), "") for raw in message["devices"]
        )
        for device in devices:
            _ = device.input  # cached here once, not computed in every child
        replica[message["put"]] = PublishedSlice((driver, ""), 0, "", devices)


# --- questions
# ----------------------------------------------------------------------------------------------------------


def questions_line(
    questions: Iterable[SelectorQuestion], numbers: Mapping[PublishedSlice, int], work: int | None
) -> bytes:
    wire = [
        {"kind": each.kind, "expressions": each.expressions, "slices": [numbers[slice_] for slice_ in each.slices]}
        for each in questions
    ]
    return json.dumps({"questions": wire, "work": work}, separators=(",", ":")).encode()


def read_questions(data: bytes, replica: Mapping[int, PublishedSlice]) -> tuple[list[SelectorQuestion], int | None]:
    """The questions and the budget of work. Raises KeyError where the replica lacks a slice."""
    wire = json.loads(data)
    found = [
        SelectorQuestion(each["kind"], tuple(each["expressions"]), [replica[n] for n in each["slices"]])
        for each in wire["questions"]
    ]
    return found, wire["work"]


# --- answers
# ------------------------------------------------------------------------------------------------------------


def answer_lines(number: int, found: Iterable[tuple[int, SliceAnswer | SliceFault]]) -> Iterator[bytes]:
    """The lines of answers to a question, as they are found; the last says that the selectors are valid, or what is
    wrong with one."""
    batch: list[SliceAnswer] = []
    first = devices = characters = 0
    for position, answer in found:
        if isinstance(answer, SliceFault):
            yield _line({"q": number, "fault": [answer.selector, answer.message]})
            return
        full = len(batch) >= BATCH or devices >= BATCH_DEVICES or characters >= BATCH_CHARACTERS
        if batch and (full or position != first + len(batch)):
            yield _batch(number, first, batch)
            batch = []
        if not batch:
            first, devices, characters = position, 0, 0
        batch.append(answer)
        if isinstance(answer, SelectorDepths):
            devices += len(answer.depths)
            characters += len(answer.fault.message) if answer.fault is not None else 0
    if batch:
        yield _batch(number, first, batch)
    yield _line({"q": number, "valid": True})


def _batch(number: int, first: int, batch: Sequence[SliceAnswer]) -> bytes:
    if isinstance(batch[0], bool):
        return _line({"q": number, "at": first, "any": batch})
    depths = [each for each in batch if isinstance(each, SelectorDepths)]
    faults = [
        [n, each.fault.selector, each.fault.device, each.fault.message]
        for n, each in enumerate(depths)
        if each.fault is not None
    ]
    return _line({"q": number, "at": first, "each": [each.depths.hex() for each in depths], "faults": faults})


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


STOPPED_LINE: Final = _line({"stopped": True})
"""The line of a child that has used up the budget of work before it was done."""
ENDED_LINE: Final = _line({"ended": True})
"""The last line of a child."""


@dataclass(frozen=True)
class ChildLine:
    """One parsed line of a child. ``question``: its number; None where the line is about all questions."""

    question: int | None
    answers: tuple[tuple[PublishedSlice, SliceAnswer], ...] = ()
    fault: SliceFault | None = None
    valid: bool = False
    stopped: bool = False
    ended: bool = False


def read_answers(line: bytes, questions: Sequence[SelectorQuestion]) -> ChildLine:
    """Parse one line of a child. Raises :class:`BadAnswer`: the child is not trusted, and may have written anything."""
    try:
        wire = json.loads(line)
        if wire.get("stopped") is True or wire.get("ended") is True:
            return ChildLine(None, stopped=wire.get("stopped") is True, ended=wire.get("ended") is True)
        number = _index(wire["q"], len(questions))
        question = questions[number]
        if wire.get("valid") is True:
            return ChildLine(number, valid=True)
        if "fault" in wire:
            selector, message = wire["fault"]
            return ChildLine(number, fault=SliceFault.of(_index(selector, MAX_SELECTORS + 1), _text(message)))
        if question.kind == "any":
            given = [(each, None) for each in wire["any"]]
        else:
            faults = {each[0]: each[1:] for each in wire["faults"]}
            given = [(each, faults.get(n)) for n, each in enumerate(wire["each"])]
        first = _index(wire["at"], len(question.slices))
        slices = question.slices[first : first + len(given)]
        return ChildLine(
            number,
            tuple((slice_, _answer(question, slice_, *each)) for slice_, each in zip(slices, given, strict=True)),
        )
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
        raise BadAnswer(f"{type(error).__name__}: {error}"[:200]) from None


def _answer(question: SelectorQuestion, slice_: PublishedSlice, given: Any, fault: Any) -> SliceAnswer:
    if question.kind == "any":
        if given is not True and given is not False:
            raise TypeError("no bool")
        return given is True
    depths = bytes.fromhex(_text(given))
    if len(depths) != len(slice_.devices) or max(depths, default=0) > len(question.expressions):
        raise ValueError("not the depths of this slice")
    if fault is None:
        return SelectorDepths(depths)
    selector, device, message = fault
    # A device that can't be converted fails on the first selector.
    found = SliceFault.of(_index(selector, len(question.expressions)), _text(message), _index(device, len(depths)))
    return SelectorDepths(depths, found)


def _index(value: Any, end: int) -> int:
    if type(value) is not int or not 0 <= value < end:
        raise ValueError("out of range")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value
