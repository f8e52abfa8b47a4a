"""A program: ``python -m devtools.hardware_lab.kubelet_call SOCKET FOLDER`` calls a driver as a kubelet does.

It makes two named pipes in the folder and answers questions until it is ended, since to start it anew takes seconds
inside. From :data:`QUESTIONS` it reads ``METHOD:NAME:UID ...``, calls for claims of the namespace ``default``, one
after the other; to :data:`ANSWERS` it writes a JSON list of what is wrong with each, "" for nothing, without the calls
from which the driver halts on (:mod:`.halting_driver`).
"""

from __future__ import annotations

import json
import os
import sys
import time
from itertools import takewhile
from pathlib import Path
from typing import Final

from devtools.hardware_lab.halting_driver import HALTED

QUESTIONS: Final = "questions"
ANSWERS: Final = "answers"
_POLL_SECONDS: Final = 0.1


def main(socket: str, folder: str) -> None:
    import grpc  # here, as others import this module for the names of its pipes

    from node_driver.wire.messages import DRA_V1

    def answer(method: str, name: str, uid: str) -> str | None:
        """What is wrong with the claim; None if the driver halts before it answers."""
        request = DRA_V1[f"{method}Request"](claims=[DRA_V1["Claim"](namespace="default", name=name, uid=uid)])
        call = channel.unary_unary(
            f"/{DRA_V1.package}.DRAPlugin/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=DRA_V1[f"{method}Response"].FromString,
        ).future(request, timeout=120, wait_for_ready=True)
        while not call.done():
            if Path(HALTED).exists():
                return None
            time.sleep(_POLL_SECONDS)
        return str(call.result().claims[uid].error)

    answers, questions = (Path(folder) / name for name in (ANSWERS, QUESTIONS))
    for pipe in (answers, questions):
        os.mkfifo(pipe)
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        while True:
            errors = (answer(*call.split(":")) for call in questions.read_text().split())
            answers.write_text(json.dumps(list(takewhile(lambda error: error is not None, errors))))


if __name__ == "__main__":
    main(*sys.argv[1:])
