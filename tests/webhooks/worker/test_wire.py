"""What server and worker write to each other: what a child answers is not trusted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from devtools.webhooks.slow_selectors import cluster
from virt_dra.cel import Work
from virt_dra.matching.evaluating import evaluate
from virt_dra.matching.slice_answers import MAX_MESSAGE, SelectorDepths, SelectorQuestion, SliceFault
from webhooks.worker.wire import (
    MAX_LINE,
    BadAnswer,
    Command,
    answer_lines,
    apply_frame,
    put_frame,
    questions_line,
    read_answers,
    read_questions,
)

PARTS = tuple(cluster({}, devices=2, slices=3).inputs.inventory.slices)
EACH = SelectorQuestion("each", ("true", "device.driver == 'x'"), PARTS)
ANY = SelectorQuestion("any", ("true",), PARTS)


def test_a_question_and_its_answers_come_over_as_they_were() -> None:
    numbers = {part: number for number, part in enumerate(PARTS, 7)}
    replica: dict[int, Any] = {}
    for part, number in numbers.items():
        apply_frame(json.loads(put_frame(number, part)[4:]), replica)
    asked, work = read_questions(questions_line([EACH, ANY], numbers, 1000), replica)
    assert [(each.kind, each.expressions, len(each.slices)) for each in asked] == [
        ("each", EACH.expressions, 3),
        ("any", ("true",), 3),
    ]
    assert work == 1000
    heard = [
        read_answers(line, [EACH, ANY])
        for n, each in enumerate(asked)
        for line in answer_lines(n, evaluate(each, Work()))
    ]
    assert [(each.question, [answer for _, answer in each.answers], each.valid) for each in heard] == [
        (0, [SelectorDepths(b"\1\1")] * 3, False),
        (0, [], True),
        (1, [True], False),
        (1, [], True),
    ]
    assert Command.decoded(Command(2, 2**63, 0.5).encoded()) == Command(2, 2**63, 0.5)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"1",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"q":2,"valid":true}',
        b'{"q":-1,"valid":true}',
        b'{"q":true,"valid":true}',
        b'{"q":0}',
        b'{"q":0,"at":0,"each":["0101","0101","0101","0101"],"faults":[]}',
        b'{"q":0,"at":3,"each":["0101"],"faults":[]}',
        b'{"q":0,"at":0,"each":["01"],"faults":[]}',
        b'{"q":0,"at":0,"each":["0109"],"faults":[]}',
        b'{"q":0,"at":0,"each":["zz"],"faults":[]}',
        b'{"q":0,"at":0,"each":[1],"faults":[]}',
        b'{"q":0,"at":0,"each":["0101"],"faults":[[0,5,0,"x"]]}',
        b'{"q":0,"at":0,"each":["0101"],"faults":[[0,0,2,"x"]]}',
        b'{"q":0,"at":0,"each":["0101"],"faults":[[0,0,0,{}]]}',
        b'{"q":0,"fault":[1000,"x"]}',
        b'{"q":0,"fault":"x"}',
        b'{"q":1,"at":0,"any":[1]}',
        b'{"q":1,"at":0,"any":{"0":true}}',
        b'{"q":1,"at":"0","any":[true]}',
        b'{"q":1,"at":1e99,"any":[true]}',
    ],
)
def test_what_is_no_answer_is_refused(line: bytes) -> None:
    with pytest.raises(BadAnswer):
        read_answers(line, [EACH, ANY])


def test_no_line_of_answers_is_longer_than_the_server_reads() -> None:
    worst = SelectorDepths(
        b"\0" * 128, SliceFault.of(0, "\N{SNOWMAN WITHOUT SNOW}\N{FACE WITH TEARS OF JOY}" * 1000, 0)
    )
    lines = list(answer_lines(0, ((position, worst) for position in range(200))))
    assert max(map(len, lines)) < MAX_LINE / 4
    assert sum(len(json.loads(line).get("each", ())) for line in lines) == 200


def test_a_message_has_an_end() -> None:
    heard = read_answers(json.dumps({"q": 0, "fault": [0, "x" * 100_000]}).encode(), [EACH])
    assert heard.fault == SliceFault(0, "x" * MAX_MESSAGE + "…")
