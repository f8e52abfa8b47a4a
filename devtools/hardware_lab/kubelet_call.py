"""A program: ``python -m devtools.hardware_lab.kubelet_call SOCKET METHOD:NAME:UID...`` calls a driver as a kubelet
does, one call after the other, each with a claim of the namespace ``default``. Prints a JSON list of what is wrong with
each, "" for nothing, without the calls from which the driver halts on (:mod:`.halting_driver`)."""

from __future__ import annotations

import json
import sys
import time
from itertools import takewhile
from pathlib import Path
from typing import Final

import grpc

from devtools.hardware_lab.halting_driver import HALTED
from node_driver.wire.messages import DRA_V1

_POLL_SECONDS: Final = 0.1


def answer(channel: grpc.Channel, method: str, name: str, uid: str) -> str | None:
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


def main(socket: str, *calls: str) -> None:
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        answers = (answer(channel, *call.split(":")) for call in calls)
        sys.stdout.write(json.dumps(list(takewhile(lambda error: error is not None, answers))))


if __name__ == "__main__":
    main(*sys.argv[1:])
