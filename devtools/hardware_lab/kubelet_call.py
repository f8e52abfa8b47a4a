"""A program: ``python -m devtools.hardware_lab.kubelet_call SOCKET METHOD NAME UID`` calls a driver as a kubelet does,
with one claim of the namespace ``default``, and prints what is wrong with it, or nothing."""

from __future__ import annotations

import sys

import grpc

from node_driver.wire.messages import DRA_V1


def main(socket: str, method: str, name: str, uid: str) -> None:
    request = DRA_V1[f"{method}Request"](claims=[DRA_V1["Claim"](namespace="default", name=name, uid=uid)])
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        call = channel.unary_unary(
            f"/{DRA_V1.package}.DRAPlugin/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=DRA_V1[f"{method}Response"].FromString,
        )
        sys.stdout.write(call(request, timeout=120, wait_for_ready=True).claims[uid].error)


if __name__ == "__main__":
    main(*sys.argv[1:])
