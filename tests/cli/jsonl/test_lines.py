"""The plumbing of the JSON-lines commands: what is read, what is answered, and when."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.jsonl.answers import members_of
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import GPUS_WITH_DRA, HOST_DEVICES_WITH_DRA, KubeVirtVersion
from virt_dra.api.wire import Json, WireError
from virt_dra.cli.allocate import lines as allocate_lines
from virt_dra.cli.cel import command as cel
from virt_dra.cli.jsonl import admit, device_status, domain_xml, render
from virt_dra.cli.jsonl.lines import answer_lines, jsonl_command
from virt_dra.cli.jsonl.members import BadLine, member
from virt_dra.cli.jsonl.vmi_members import gates_of, vmi_of, vmi_or_spec
from virt_dra.cli.main import cli

HEAD = '{"apiVersion": "output.virt-dra.io/v1", "kind": "Answer", '


def _echo(request: Json) -> Json:
    return {"got": request.get("value")}


def _answers(*lines: bytes) -> list[Any]:
    out = io.StringIO()
    answer_lines(lines, out, "Answer", _echo, {"got": None})
    return [members_of(line, "Answer") for line in out.getvalue().splitlines()]


def test_answers_come_in_order_with_their_ids() -> None:
    assert _answers(b'{"id": 2, "value": [1]}\n', b'{"value": "\xc3\xbc"}\n', b'{"id": {"a": 1.5}}') == [
        {"id": 2, "got": [1]},
        {"id": None, "got": "ü"},
        {"id": {"a": 1.5}, "got": None},
    ]


def test_blank_lines_are_skipped_and_still_counted() -> None:
    assert _answers(b"\n", b"  \r\n", b"[]\n") == [
        {"id": None, "got": None, "error": "line 3: a request must be a JSON object, not a list"},
    ]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"{", "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b"null", "a request must be a JSON object, not null"),
        (b"true", "a request must be a JSON object, not a boolean"),
        (b"1.5", "a request must be a JSON object, not a number"),
        (b'{"id": NaN}', "not JSON: NaN is no JSON value"),
        (b'{"id": -Infinity}', "not JSON: -Infinity is no JSON value"),
        (b'{"id": 1e999}', "not JSON: the number 1e999 is too large"),
        (b"\xff{}", "not UTF-8: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b"[" * 100_000, "the JSON is nested too deeply"),
        (b'{"id": ' + b"[" * 100_000, "the JSON is nested too deeply"),
    ],
)
def test_a_line_that_is_no_request_is_refused_and_the_next_one_answered(line: bytes, error: str) -> None:
    assert _answers(line, b'{"id": 1}') == [
        {"id": None, "got": None, "error": f"line 1: {error}"},
        {"id": 1, "got": None},
    ]


def test_integers_beyond_pythons_limit_are_refused() -> None:
    (answer,) = _answers(b'{"id": ' + b"1" * 5000 + b"}")
    assert answer["error"] == "line 1: not JSON: a number has more than 4300 digits"


def test_a_byte_order_mark_is_no_fault() -> None:
    assert _answers(b'\xef\xbb\xbf{"id": 1}') == [{"id": 1, "got": None}]


def test_text_that_utf8_cannot_carry_is_escaped() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    answer_lines([b'{"id": "\\ud800", "value": "\xc3\xbc"}'], out, "Answer", _echo, {})
    out.seek(0)
    assert out.read() == f'{HEAD}"id": "\\ud800", "got": "\\u00fc"}}\n'


def test_characters_that_readers_take_for_line_ends_are_escaped() -> None:
    out = io.StringIO()
    answer_lines([b'{"value": "a\\u2028b\\u0085"}'], out, "Answer", _echo, {})
    assert out.getvalue() == f'{HEAD}"id": null, "got": "a\\u2028b\\u0085"}}\n'


def test_an_answer_that_raises_keeps_the_id() -> None:
    def refuse(request: Json) -> Json:
        if request["id"] == 1:
            raise BadLine("value: must be a string, not a list")
        raise WireError("Pod", (("spec.x", "must be a list, not a string"), ("spec.y", "is required")))

    out = io.StringIO()
    answer_lines([b'{"id": 1}', b'{"id": "b"}'], out, "Answer", refuse, {"allowed": False})
    assert [members_of(line, "Answer") for line in out.getvalue().splitlines()] == [
        {"id": 1, "allowed": False, "error": "line 1: value: must be a string, not a list"},
        {"id": "b", "allowed": False, "error": "line 2: spec.x: must be a list, not a string; spec.y: is required"},
    ]


def test_each_answer_is_flushed_before_the_next_line_is_read() -> None:
    class Log(io.StringIO):
        def flush(self) -> None:
            events.append("flush")

    events: list[str] = []

    def lines() -> Iterator[bytes]:
        for number in (1, 2):
            events.append(f"read {number}")
            yield b"{}"

    answer_lines(lines(), Log(), "Answer", _echo, {})
    assert events == ["read 1", "flush", "read 2", "flush"]


@given(st.lists(st.binary(max_size=30)))
def test_every_line_of_bytes_gets_one_json_answer(lines: list[bytes]) -> None:
    out = io.StringIO()
    answer_lines(lines, out, "Answer", _echo, {"got": None})
    assert len([json.loads(line) for line in out.getvalue().splitlines()]) == len(
        [line for line in lines if line.strip()]
    )


def test_members_are_typed() -> None:
    request: Json = {"s": "x", "o": {}, "b": True, "n": None}
    assert member(request, "s", str) == "x"
    assert member(request, "n", str, "default") == "default"
    assert member(request, "missing", dict) is None
    assert member(request, "b", bool) is True
    with pytest.raises(BadLine, match=r"^o: must be a list, not an object$"):
        member(request, "o", list)
    with pytest.raises(BadLine, match=r"^b: must be an integer, not a boolean$"):
        member(request, "b", int)


def test_gates_default_to_the_newest_version() -> None:
    gates = gates_of({})
    assert (str(gates.version), gates.on) == ("1.9", frozenset({GPUS_WITH_DRA, HOST_DEVICES_WITH_DRA}))


def test_a_gate_that_is_null_is_not_given() -> None:
    gates = gates_of({"kubevirt": None, "gates": {"GPUsWithDRA": None, "HostDevicesWithDRA": False}})
    assert (str(gates.version), gates.on) == ("1.9", frozenset({GPUS_WITH_DRA}))


def test_the_designs_gate_stands_for_both() -> None:
    request: Json = {"kubevirt": "1.7", "gates": {"DynamicResourceAllocation": True, "HostDevicesWithDRA": False}}
    gates = gates_of(request)
    assert (gates.version, gates.on) == (KubeVirtVersion.parse("1.7"), frozenset({GPUS_WITH_DRA}))


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"kubevirt": 1.9}, "kubevirt: must be a string, not a number"),
        ({"kubevirt": ""}, "kubevirt: '' is no KubeVirt version; write for example 1.9, 1.8.3 or main"),
        (
            {"kubevirt": "1.99"},
            "kubevirt: KubeVirt 1.99 is newer than the releases known here: 1.6, 1.7, 1.8, 1.9 and main; "
            "main has the newest rules",
        ),
        ({"gates": ["GPUsWithDRA"]}, "gates: must be an object, not a list"),
        ({"gates": {"GPUsWithDRA": "true"}}, "gates.GPUsWithDRA: must be a boolean, not a string"),
    ],
)
def test_bad_versions_and_gates_say_what_is_expected(request_: Json, error: str) -> None:
    with pytest.raises(BadLine) as caught:
        gates_of(request_)
    assert str(caught.value) == error


def test_the_kind_distinguishes_a_vm_from_a_vmi() -> None:
    assert isinstance(vmi_of({"vmi": {}}), VirtualMachineInstance)
    assert isinstance(vmi_of({"vmi": {"kind": "VirtualMachine"}}), VirtualMachine)
    with pytest.raises(BadLine, match=r"^vmi: is required"):
        vmi_of({})
    with pytest.raises(WireError, match=r"^vmi.kind: must be VirtualMachineInstance or VirtualMachine$"):
        vmi_of({"vmi": {"kind": "Pod"}})


def test_a_bare_spec_becomes_an_object() -> None:
    assert vmi_or_spec({"spec": {"architecture": "arm64"}}) == {"spec": {"architecture": "arm64"}}
    with pytest.raises(BadLine, match=r"^give either vmi"):
        vmi_or_spec({"vmi": {}, "spec": {}})


def test_the_command_reads_a_file_or_standard_input(tmp_path: Path) -> None:
    command = jsonl_command("echo", "Answer", _echo, {}, "Help.", "Examples.")
    source = tmp_path / "requests.jsonl"
    source.write_text('{"id": 1, "value": "ü"}\n', encoding="utf-8")
    for arguments, text in (([str(source)], ""), ([], '{"id": 1, "value": "ü"}\n')):
        result = CliRunner().invoke(command, ["--jsonl", *arguments], input=text)
        assert (result.exit_code, result.stdout) == (0, f'{HEAD}"id": 1, "got": "ü"}}\n')


def test_without_jsonl_or_file_the_command_is_used_badly(tmp_path: Path) -> None:
    command = jsonl_command("echo", "Answer", _echo, {}, "Help.", "Examples.")
    assert CliRunner().invoke(command, []).exit_code == 2
    assert CliRunner().invoke(command, ["--jsonl", str(tmp_path / "missing")]).exit_code == 2
    assert CliRunner().invoke(command, ["--jsonl", str(tmp_path)]).exit_code == 2


ALL_COMMANDS = {
    "admit": admit.MEMBERS,
    "render": render.MEMBERS,
    "device-status": device_status.MEMBERS,
    "domain-xml": domain_xml.MEMBERS,
    "cel": cel.MEMBERS,
    "allocate": allocate_lines.MEMBERS,
}


@pytest.mark.parametrize("command", ALL_COMMANDS)
def test_every_command_names_the_members_that_count_for_nothing(command: str) -> None:
    members = ALL_COMMANDS[command]
    strange = {f"?{n}": 1 for n in range(25)}
    requests: list[Json] = [{"id": 1, f"{members[0]}z": 1}, {"id": 2, **dict.fromkeys(members)}, {"id": 3, **strange}]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    result = CliRunner().invoke(cli, [command, "--jsonl"], input=lines)
    single, none, many = (json.loads(line).get("warnings", []) for line in result.stdout.splitlines())
    assert f'{members[0]}z: unknown member of the request; did you mean "{members[0]}"?' in single
    assert not [text for text in none if "unknown member" in text]
    assert (len(many), many[-1]) == (21, "5 more unknown members of the request")


@pytest.mark.parametrize("command", ALL_COMMANDS)
def test_every_member_is_in_the_help(command: str) -> None:
    text = CliRunner().invoke(cli, [command, "--help"]).output
    assert [name for name in ALL_COMMANDS[command] if not re.search(rf"(?<![\w]){name}(?![\w])", text)] == []
