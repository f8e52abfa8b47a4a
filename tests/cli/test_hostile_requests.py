"""Whatever JSON a request holds, admit and render answer it."""

from __future__ import annotations

import io
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.jsonl.answers import members_of
from tests.sampling import sample
from virt_dra.cli.jsonl import admit, render
from virt_dra.cli.jsonl.lines import answer_lines

_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
)
_anything = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_strings = st.sampled_from(["", "a", "A.b", "\ud800", "x" * 300])


def _shaped(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects with some of the members, each right or anything else."""
    mixed: dict[str, st.SearchStrategy[Any]] = {name: value | _anything for name, value in members.items()}
    return st.fixed_dictionaries({}, optional=mixed)


_device = _shaped(
    name=_strings,
    deviceName=_strings,
    claimName=_strings,
    requestName=_strings,
    claim=_shaped(name=_strings, request=_strings),
)
_spec = _shaped(
    resourceClaims=st.lists(_shaped(name=_strings, resourceClaimName=_strings), max_size=2),
    networks=st.lists(_shaped(name=_strings, resourceClaim=_shaped(claimName=_strings)), max_size=2),
    domain=_shaped(
        devices=_shaped(
            gpus=st.lists(_device, max_size=2),
            hostDevices=st.lists(_device, max_size=2),
            interfaces=st.lists(_shaped(name=_strings, pciAddress=_strings), max_size=2),
        ),
        memory=_shaped(guest=st.sampled_from(["1Gi", "x", 5]), hugepages=_shaped(pageSize=_strings)),
        resources=_shaped(limits=_anything, requests=_anything),
    ),
)
_object = _shaped(
    kind=st.sampled_from(["VirtualMachine", "VirtualMachineInstance", "Pod"]),
    metadata=_shaped(annotations=_anything),
    spec=_spec,
)
_request = _shaped(
    id=_anything,
    vmi=_object,
    spec=_spec,
    old=_object | _spec,
    gates=st.dictionaries(st.sampled_from(["GPUsWithDRA", "HostDevices", "X"]), st.booleans()),
    fieldValidation=st.sampled_from(["Strict", "Warn", "Ignore", "x"]),
    kubevirt=st.sampled_from(["1.9", "1.8.0", "1.7", "1.5", "main", "x", "1." + "9" * 50]),
    permittedHostDevices=_shaped(usb=st.lists(_shaped(resourceName=_strings), max_size=1)),
)


def _one_answer(module: Any, request: object) -> Any:
    out = io.StringIO()
    answer_lines([json.dumps(request).encode()], out, "Answer", module.answer, module.REFUSAL)
    (line,) = out.getvalue().splitlines()
    line.encode()
    return members_of(line, "Answer")


@settings(max_examples=sample(150), deadline=None)
@given(_request)
def test_admit_always_gives_a_verdict(request: dict[str, Any]) -> None:
    answer = _one_answer(admit, request)
    assert answer["id"] == request.get("id")
    assert isinstance(answer["allowed"], bool)
    assert not (answer["allowed"] and (answer["causes"] or "error" in answer))
    assert all(set(cause) == {"type", "message", "field", "by"} for cause in answer["causes"])


@settings(max_examples=sample(150), deadline=None)
@given(_request)
def test_render_always_gives_a_fragment_or_an_error(request: dict[str, Any]) -> None:
    answer = _one_answer(render, request)
    assert answer["id"] == request.get("id")
    assert (answer["error"] is None) is bool(answer["containers"])
