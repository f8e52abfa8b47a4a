"""A program: ``python -m devtools.hardware_lab.hook_call SOCKET DOMAIN VMI`` asks a hook sidecar, as KubeVirt does, for
the domain that libvirt gets in place of the one in the file DOMAIN, and then in place of its answer; prints both as a
JSON list. VMI: a file with its JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import grpc

from launcher.hook.wire import CALLBACKS

_VERSION: Final = "v1alpha3"


def main(socket: str, domain: str, vmi: str) -> None:
    messages = CALLBACKS[_VERSION]
    text, answers = Path(domain).read_bytes(), []
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        define = channel.unary_unary(
            f"/{messages.package}.Callbacks/OnDefineDomain",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=messages["OnDefineDomainResult"].FromString,
        )
        for _ in range(2):
            parameters = messages["OnDefineDomainParams"](domainXML=text, vmi=Path(vmi).read_bytes())
            text = define(parameters, timeout=120, wait_for_ready=True).domainXML
            answers.append(text.decode())
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
