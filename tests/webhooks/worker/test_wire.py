"""What server and worker write to each other: what a child answers is not trusted."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from devtools.webhooks.slow_selectors import cluster
from virt_dra.cel import Work
from virt_dra.matching.evaluating import evaluate
from virt_dra.matching.published_slice import PublishedSlice
from virt_dra.matching.slice_answers import MAX_MESSAGE, SelectorDepths, SelectorQuestion, SliceAnswer, SliceFault
from virt_dra.sandbox.messages import LENGTH, BadMessage
from webhooks.worker.wire import (
    CHILD_MESSAGES,
    MAX_ANSWER,
    QUESTIONS,
    REPLICA_CHANGES,
    QuestionDone,
    SliceAnswers,
    answer_messages,
    apply_change,
    checked_answers,
    checked_fault,
    put_slice,
    read,
    written,
)

PARTS = tuple(cluster({}, devices=2, slices=3).inputs.inventory.slices)
EACH = SelectorQuestion("each", ("true", "device.driver == 'x'"), PARTS)
ANY = SelectorQuestion("any", ("true",), PARTS)


def _replica() -> dict[int, PublishedSlice]:
    replica: dict[int, PublishedSlice] = {}
    for number, part in enumerate(PARTS, 7):
        frame = REPLICA_CHANGES.encoded(put_slice(number, part))
        apply_change(REPLICA_CHANGES.decoded(frame[LENGTH.size :]), replica)
    return replica


def test_a_question_and_its_answers_come_over_as_they_were() -> None:
    numbers = {part: number for number, part in enumerate(PARTS, 7)}
    questions = QUESTIONS.decoded(QUESTIONS.encoded(written([EACH, ANY], numbers, 1000))[LENGTH.size :])
    asked = read(questions, _replica())
    assert [(question.kind, question.expressions, len(question.slices)) for question in asked] == [
        ("each", EACH.expressions, 3),
        ("any", ("true",), 3),
    ]
    assert questions.work == 1000
    messages = [
        CHILD_MESSAGES.decoded(CHILD_MESSAGES.encoded(message)[LENGTH.size :])
        for number, question in enumerate(asked)
        for message in answer_messages(number, evaluate(question, Work()))
    ]
    assert messages == [
        SliceAnswers(0, 0, (SelectorDepths(b"\1\1"),) * 3),
        QuestionDone(0),
        SliceAnswers(1, 0, (True,)),
        QuestionDone(1),
    ]


def _checked(name: bytes, head: bytes) -> list[tuple[PublishedSlice, SliceAnswer]]:
    """What the server makes of a message that a child sent about the first of two questions, each of a kind."""
    parts = (name, head)
    frame = bytes((2,)) + b"".join(struct.pack("!I", len(part)) for part in parts) + b"".join(parts)
    message = CHILD_MESSAGES.decoded(frame)
    if isinstance(message, QuestionDone) and message.fault is not None:
        checked_fault(message.fault)
    assert isinstance(message, SliceAnswers)
    return list(checked_answers(message, (EACH, ANY)[message.question]))


def test_an_answer_is_accepted() -> None:
    answer = b'{"question":0,"first":2,"answers":[{"depths":"AQE="}]}'
    assert _checked(b"SliceAnswers", answer) == [(PARTS[2], SelectorDepths(b"\1\1"))]


@pytest.mark.parametrize(
    ("name", "head"),
    [
        (b"", b""),
        (b"ChildDone", b"[]"),
        (b"ChildDone", b"{"),
        (b"ChildDone", b"\xff"),
        (b"SliceAnswers", b"[" * 100_000),
        (b"Other", b"{}"),
        (b"QuestionDone", b'{"question":true}'),
        (b"QuestionDone", b'{"question":0,"fault":{"selector":1000,"message":"x"}}'),
        (b"QuestionDone", b'{"question":0,"fault":"x"}'),
        (b"QuestionDone", json.dumps({"question": 0, "fault": {"selector": 0, "message": "x" * 10_000}}).encode()),
        *(
            (b"SliceAnswers", json.dumps(answers).encode())
            for answers in (
                {"question": 0},
                {"question": 0, "first": 0, "answers": [{"depths": "AQE="}] * 4},
                {"question": 0, "first": 3, "answers": [{"depths": "AQE="}]},
                {"question": 0, "first": -1, "answers": [{"depths": "AQE="}]},
                {"question": 0, "first": 0, "answers": [{"depths": "AQ=="}]},
                {"question": 0, "first": 0, "answers": [{"depths": "AQk="}]},
                {"question": 0, "first": 0, "answers": [{"depths": "!!!!"}]},
                {"question": 0, "first": 0, "answers": [1]},
                {"question": 0, "first": 0, "answers": [True]},
                *(
                    {"question": 0, "first": 0, "answers": [{"depths": "AQE=", "fault": fault}]}
                    for fault in (
                        {"selector": 5, "device": 0, "message": "x"},
                        {"selector": 0, "device": 2, "message": "x"},
                        {"selector": 0, "device": -1, "message": "x"},
                        {"selector": 0, "message": "x"},
                        {"selector": 0, "device": 0, "message": {}},
                    )
                ),
                {"question": 1, "first": 0, "answers": [1]},
                {"question": 1, "first": 0, "answers": {"0": True}},
                {"question": 1, "first": "0", "answers": [True]},
                {"question": 1, "first": 1e99, "answers": [True]},
                {"question": 1, "first": 0, "answers": [{"depths": "AQE="}]},
            )
        ),
    ],
)
def test_what_is_no_answer_is_refused(name: bytes, head: bytes) -> None:
    with pytest.raises(BadMessage):
        _checked(name, head)


def test_no_message_is_longer_than_the_server_reads() -> None:
    worst = SelectorDepths(
        b"\0" * 128, SliceFault.truncated(0, "\N{SNOWMAN WITHOUT SNOW}\N{FACE WITH TEARS OF JOY}" * 1000, 0)
    )
    messages: list[Any] = list(answer_messages(0, ((position, worst) for position in range(200))))
    assert max(len(CHILD_MESSAGES.encoded(message)) for message in messages) < MAX_ANSWER / 4
    assert sum(len(message.answers) for message in messages[:-1]) == 200


def test_a_fault_has_an_end() -> None:
    assert checked_fault(SliceFault(0, "x" * 100_000)) == SliceFault(0, "x" * MAX_MESSAGE + "…")
