"""What server and worker write to each other: what a child answers is not trusted."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from devtools.webhooks.slow_selectors import cluster
from virt_dra.matching.slice_answers import MAX_MESSAGE, DepthsQuestion, DriversQuestion, SelectorDepths, SliceFault
from virt_dra.matching.slice_table import SliceTable
from virt_dra.sandbox.messages import LENGTH, BadMessage
from webhooks.worker.wire import (
    CHILD_MESSAGES,
    MAX_ANSWER,
    QUESTIONS,
    REPLICA_CHANGES,
    QuestionDone,
    Questions,
    SliceDepths,
    SlicesMatched,
    WrittenQuestion,
    answers,
    apply_change,
    checked_depths,
    checked_fault,
    checked_masks,
    depths_messages,
    put_slice,
)

SLICES = tuple(cluster({}, devices=2, slices=3).inputs.inventory.slices.values())
DEPTHS = DepthsQuestion(("true", "device.driver == 'x'"), SLICES)
DRIVERS = DriversQuestion(("true",), 0b111)


def _replica() -> SliceTable:
    replica = SliceTable()
    for slice_ in SLICES:
        frame = REPLICA_CHANGES.encoded(put_slice(slice_))
        apply_change(REPLICA_CHANGES.decoded(frame[LENGTH.size :]), replica)
    return replica


def _answered(replica: SliceTable) -> list[Any]:
    written = Questions((WrittenQuestion.from_question(DEPTHS), WrittenQuestion.from_question(DRIVERS)), 1000)
    questions = QUESTIONS.decoded(QUESTIONS.encoded(written)[LENGTH.size :])
    assert questions == written
    return [
        CHILD_MESSAGES.decoded(CHILD_MESSAGES.encoded(message)[LENGTH.size :])
        for message in answers(questions, replica)
        if message != SlicesMatched(1)
    ]


def test_a_question_and_its_answers_come_over_as_they_were() -> None:
    assert _answered(_replica()) == [
        SliceDepths(0, 0, (SelectorDepths(b"\1\1"),) * 3),
        QuestionDone(0),
        SlicesMatched(1, b"\7", b"\7"),
        QuestionDone(1),
    ]


def test_slices_that_the_replica_lacks_stay_unknown() -> None:
    replica = _replica()
    replica.drop(1)
    assert _answered(replica) == [
        SliceDepths(0, 0, (SelectorDepths(b"\1\1"),)),
        SliceDepths(0, 2, (SelectorDepths(b"\1\1"),)),
        QuestionDone(0),
        SlicesMatched(1, b"\5", b"\5"),
        QuestionDone(1),
    ]


def _checked(name: bytes, head: bytes, *raw: bytes) -> object:
    """What the server makes of a message that a child sent about the first of two questions, each of a kind."""
    parts = (name, head, *raw)
    frame = bytes((len(parts),)) + b"".join(struct.pack("!I", len(part)) for part in parts) + b"".join(parts)
    message = CHILD_MESSAGES.decoded(frame)
    if isinstance(message, QuestionDone) and message.fault is not None:
        return checked_fault(message.fault)
    if isinstance(message, SlicesMatched):
        return checked_masks(message, (DEPTHS, DRIVERS)[message.question])
    assert isinstance(message, SliceDepths)
    return list(checked_depths(message, (DEPTHS, DRIVERS)[message.question]))


def test_an_answer_is_accepted() -> None:
    answer = b'{"question":0,"first":2,"depths":[{"depths":"AQE="}]}'
    assert _checked(b"SliceDepths", answer) == [(SLICES[2], SelectorDepths(b"\1\1"))]
    assert _checked(b"SlicesMatched", b'{"question":1}', b"\6", b"\2") == (6, 2)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        (b"", b""),
        (b"ChildDone", b"[]"),
        (b"ChildDone", b"{"),
        (b"ChildDone", b"\xff"),
        (b"SliceDepths", b"[" * 100_000),
        (b"Other", b"{}"),
        (b"QuestionDone", b'{"question":true}'),
        (b"QuestionDone", b'{"question":0,"fault":{"selector":1000,"message":"x"}}'),
        (b"QuestionDone", b'{"question":0,"fault":"x"}'),
        (b"QuestionDone", json.dumps({"question": 0, "fault": {"selector": 0, "message": "x" * 10_000}}).encode()),
        *(
            (b"SliceDepths", json.dumps(answers).encode())
            for answers in (
                {"question": 0},
                {"question": 0, "first": 0, "depths": [{"depths": "AQE="}] * 4},
                {"question": 0, "first": 3, "depths": [{"depths": "AQE="}]},
                {"question": 0, "first": -1, "depths": [{"depths": "AQE="}]},
                {"question": 0, "first": 0, "depths": [{"depths": "AQ=="}]},
                {"question": 0, "first": 0, "depths": [{"depths": "AQk="}]},
                {"question": 0, "first": 0, "depths": [{"depths": "!!!!"}]},
                {"question": 0, "first": 0, "depths": [1]},
                {"question": 0, "first": 0, "depths": [True]},
                *(
                    {"question": 0, "first": 0, "depths": [{"depths": "AQE=", "fault": fault}]}
                    for fault in (
                        {"selector": 5, "device": 0, "message": "x"},
                        {"selector": 0, "device": 2, "message": "x"},
                        {"selector": 0, "device": -1, "message": "x"},
                        {"selector": 0, "message": "x"},
                        {"selector": 0, "device": 0, "message": {}},
                    )
                ),
                {"question": 1, "first": 0, "depths": [1]},
                {"question": 1, "first": 0, "depths": {"0": True}},
                {"question": 1, "first": "0", "depths": [True]},
                {"question": 1, "first": 1e99, "depths": [True]},
                {"question": 1, "first": 0, "depths": [{"depths": "AQE="}]},
            )
        ),
    ],
)
def test_what_is_no_answer_is_refused(name: bytes, head: bytes) -> None:
    with pytest.raises(BadMessage):
        _checked(name, head)


@pytest.mark.parametrize(
    ("question", "masks"),
    [
        (1, (b"\x0f", b"\0")),  # a slice that wasn't asked about
        (1, (b"\1", b"\2")),  # matches, and wasn't answered
        (1, (b"\7",)),
        (1, ()),
        (0, (b"\7", b"\7")),  # a question about depths
        (1, (b"\xff" * 300_000, b"\0")),
    ],
)
def test_what_are_no_masks_of_the_question_is_refused(question: int, masks: tuple[bytes, ...]) -> None:
    with pytest.raises(BadMessage):
        _checked(b"SlicesMatched", b'{"question":%d}' % question, *masks)


def test_no_message_is_longer_than_the_server_reads() -> None:
    worst = SelectorDepths(
        b"\0" * 128, SliceFault.truncated(0, "\N{SNOWMAN WITHOUT SNOW}\N{FACE WITH TEARS OF JOY}" * 1000, 0)
    )
    messages: list[Any] = list(depths_messages(0, ((position, worst) for position in range(200))))
    assert max(len(CHILD_MESSAGES.encoded(message)) for message in messages) < MAX_ANSWER / 4
    assert sum(len(message.depths) for message in messages) == 200


def test_a_fault_has_an_end() -> None:
    assert checked_fault(SliceFault(0, "x" * 100_000)) == SliceFault(0, "x" * MAX_MESSAGE + "…")
