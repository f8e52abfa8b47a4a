"""Reading manifests: Kubernetes' meaning of YAML (yaml_upstream.jsonl, made by devtools/upstream/yaml), places, limits,
hostile input."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.sampling import sample
from virt_dra.api.reading import yaml_fast, yaml_text
from virt_dra.api.reading.documents import DocumentError, DocumentSource, read_documents, read_objects
from virt_dra.api.reading.yaml_writing import write_documents, write_yaml
from virt_dra.api.resource_v1 import ResourceSlice

UPSTREAM: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "yaml_upstream.jsonl").read_bytes().split(b"\n") if line
]
EXACT_INTEGERS = {"a: -9223372036854775809", "a: 18446744073709551616", "a: 100000000000000000000000"}
"""Integers beyond 64 bits: exact here, floats upstream."""


def raws(text: str | bytes) -> list[object]:
    return [document.raw for document in read_documents(text.encode() if isinstance(text, str) else text, "in.yaml")]


def refusal(text: str | bytes, name: str = "in.yaml") -> str:
    with pytest.raises(DocumentError) as error:
        read_documents(text.encode() if isinstance(text, str) else text, name)
    return str(error.value)


# --- the meaning of YAML ---


@pytest.mark.parametrize("case", UPSTREAM, ids=lambda case: case["yaml"].encode("unicode_escape").decode())
def test_yaml_means_what_it_means_to_kubernetes(case: dict[str, Any]) -> None:
    text = case["yaml"]
    duplicate = "already set" in case.get("strict", "") and "<<" not in text
    if ("error" in case and text != "%YAML 1.2\n---\na: yes") or duplicate or text == "1: a\n'1': b":
        with pytest.raises(DocumentError):
            tuple(yaml_text.parse(text, "in.yaml"))
        return
    values = [parsed.value for parsed in yaml_text.parse(text, "in.yaml")] or [None]
    if text == "%YAML 1.2\n---\na: yes":
        assert values == [{"a": True}]  # upstream refuses the directive
    elif text in EXACT_INTEGERS:
        assert values == [{"a": int(text[3:])}]
    else:
        assert json.dumps(values, sort_keys=True) == json.dumps([case["json"]], sort_keys=True)


def test_documents_lists_and_empty_documents() -> None:
    text = """\
# head
---
apiVersion: v1
kind: Pod
---
---
# nothing
--- # a List
apiVersion: v1
kind: List
items:
- kind: A
- apiVersion: v1
  kind: PodList
  items: [{kind: Pod, x: 1}, {x: 2}]
- null
...
---
kind: ResourceSliceList
apiVersion: resource.k8s.io/v1
items: null
---
kind: AllowList
spec: {}
"""
    assert [(d.raw, str(d.source)) for d in read_documents(text.encode(), "f")] == [
        ({"apiVersion": "v1", "kind": "Pod"}, "f:3"),
        ({"kind": "A"}, "f:12 (document 4, items[0])"),
        ({"apiVersion": "v1", "kind": "Pod", "x": 1}, "f:13 (document 4, items[0])"),
        ({"apiVersion": "v1", "kind": "Pod", "x": 2}, "f:13 (document 4, items[1])"),
        ({"kind": "AllowList", "spec": {}}, "f:23 (document 6)"),
    ]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a": 1}', [({"a": 1}, "f:1")]),
        (
            '{"a": 1}{"a": 2}\n\n{"a": 3}',
            [({"a": 1}, "f:1"), ({"a": 2}, "f:1 (document 2)"), ({"a": 3}, "f:3 (document 3)")],
        ),
        ('{"a": 1}\n{"a": 2.0}\n', [({"a": 1}, "f:1"), ({"a": 2}, "f:2 (document 2)")]),
        (
            '{"kind":"XList","apiVersion":"g/v","items":[{"n":1}]}',
            [({"apiVersion": "g/v", "kind": "X", "n": 1}, "f:1 (items[0])")],
        ),
        ('{"a": 1}\n---\n{"a": 2}\n', [({"a": 1}, "f:1"), ({"a": 2}, "f:3 (document 2)")]),
        ("{a: b}\n", [({"a": "b"}, "f:1")]),
        ('[{"a": 1e3, "b": 1.5, "c": "\\ud83d\\ude00"}]', [([{"a": 1000, "b": 1.5, "c": "😀"}], "f:1")]),
        ("", []),
        (" \n\t\n", []),
        ("null", []),
    ],
)
def test_json_values(text: str, values: list[tuple[object, str]]) -> None:
    assert [(d.raw, str(d.source)) for d in read_documents(text.encode(), "f")] == values


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings_that_yaml_allows(encoding: str) -> None:
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    assert raws((mark + "name: Größe 😀").encode(encoding)) == [{"name": "Größe 😀"}]
    assert raws((mark + '{"name": "Größe"}').encode(encoding)) == [{"name": "Größe"}]


# --- errors name the place and say what to do ---


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            b"\xef\xbb\xbfa: 1\nb: \xff",
            "in.yaml: line 2, column 4, document 1: not UTF-8 text (byte 0xff); save it as UTF-8",
        ),
        (b"a: \xff", "in.yaml: line 1, column 4, document 1: not UTF-8 text (byte 0xff); save it as UTF-8"),
        (b"\xff\xfea", "in.yaml: line 1, column 3, document 1: not UTF-16 text (byte 0x61); save it as UTF-8"),
        (
            "a: 1\nb: \x00",
            "in.yaml: line 2, column 4, document 1: not YAML: control characters are "
            "not allowed (character U+0000); is this a text file?",
        ),
        (
            "a: 1\n---\nb: 1\nc: 2\nb: 3",
            'in.yaml: line 5, column 1, document 2: key "b" is given twice in the same mapping; remove one of them',
        ),
        (
            '{"a": 1,\n "b": {"x": 1, "\\u0078": "}"}}',
            'in.yaml: line 2, column 16, document 1: key "x" is given twice in the same object; remove one of them',
        ),
        ("a: [*x]", "in.yaml: line 1, column 5, document 1: unknown anchor 'x' referenced"),
        ("a: &x [*x]", "in.yaml: line 1, column 8, document 1: anchor 'x' value contains itself"),
        ("[a]: b", "in.yaml: line 1, column 1, document 1: a key must be a string, not a list or mapping"),
        (
            "a:\n  ~: b",
            'in.yaml: line 2, column 3, document 1: null can\'t be a key; quote it ("null") if the string is meant',
        ),
        (
            "a: .inf",
            "in.yaml: line 1, column 4, document 1: .inf is not a number that JSON can express; write a finite number, "
            "or quote it if a string is meant",
        ),
        ('{"a": NaN}', "in.yaml: line 1, column 1, document 1: NaN is not a number that JSON can express"),
        (
            '{"a": 1e999}',
            "in.yaml: line 1, column 1, document 1: the number 1e999 is out of "
            "range; write it as a string if a quantity is meant",
        ),
        ('{"a": ' + "9" * 5000 + "}", "in.yaml: line 1, column 1, document 1: an integer has too many digits"),
        (
            '{"a": "\\ud800"}',
            "in.yaml: line 1, column 8, document 1: \\ud800 is half of a surrogate pair and no character",
        ),
        ('{"a": 1,\n "b" 2}', "in.yaml: line 2, column 6, document 1: not JSON: Expecting ':' delimiter"),
        (
            "a: b: c",
            "in.yaml: line 1, column 5, document 1: not YAML: mapping values are not allowed in this context; "
            'check the indentation, and quote text that contains ": "',
        ),
        (
            "a:\n\t- b",
            "in.yaml: line 2, column 1, document 1: not YAML: found character that cannot start any token "
            "(while scanning for the next token); indent with spaces, not tabs, "
            "and quote text that begins with a special character",
        ),
        (
            "[" * 201 + "]" * 201,
            "in.yaml: line 1, column 1, document 1: nested more than 200 levels deep; no Kubernetes object needs that",
        ),
        (
            "- " * 300 + "a",
            "in.yaml: line 1, column 401, document 1: nested more than 200 "
            "levels deep; no Kubernetes object needs that",
        ),
    ],
)
def test_errors_say_where_and_what(text: str | bytes, message: str) -> None:
    assert refusal(text) == message


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{a: " * 100_000,
        '{"a":' * 100_000,
        "- " * 100_000,
        "a:\n " * 50_000,
        "? " * 50_000,
        "&a " * 9,
        "{" * 9,
    ],
)
def test_deep_nesting_does_not_recurse(text: str) -> None:
    assert refusal(text).startswith("in.yaml: line ")


def test_nesting_up_to_the_limit_is_read() -> None:
    for text in ("[" * 200 + "]" * 200, '{"a":' * 199 + "1" + "}" * 199, "{a: " * 199 + "1" + "}" * 199):
        assert len(raws(text)) == 1


def test_alias_bombs_are_refused_without_being_written_out() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30)
    )
    assert refusal(bomb) == (
        "in.yaml: line 6, column 20, document 1: document contains excessive aliasing: "
        "written out, its aliases have more than 400000 nodes"
    )
    merge_bomb = "a0: &a0 {x: [1, 2, 3, 4]}\n" + "".join(
        f"a{i}: &a{i} {{x: *a{i - 1}, y: *a{i - 1}, <<: *a{i - 1}}}\n" for i in range(1, 40)
    )
    assert "document contains excessive aliasing" in refusal(merge_bomb)


def test_an_alias_of_a_long_text_counts_as_what_it_stands_for() -> None:
    """Written out this has 100 GB: neither reader may begin with it."""
    long = "x" * 1_000_000
    aliases = "".join("- *x\n" for _ in range(100_000))
    for text in (
        f"x: &x {long}\nall:\n{aliases}",
        f"x: &x\n- {long}\nall:\n{aliases}",
        f"x: &x\n  ? {long}\n  : 1\nall:\n{aliases}",
    ):
        assert "excessive aliasing" in refusal(text)


@pytest.mark.slow
def test_a_flood_of_documents_ends_with_an_error() -> None:
    assert raws("---\n" * 100_000) == []
    assert raws("--- a\n" * 100_000) == ["a"] * 100_000
    for flood in ("---\n", "--- a\n", "---\na: 1\n", "---\n# c\n"):
        assert "more than 100,000 documents in one text; split it, or write the objects as a List" in refusal(
            flood * 100_001
        )
    assert len(raws("{} " * 100_001)) == 100_001  # values of JSON cost next to nothing


def test_neighbours_that_are_read_together_keep_their_places() -> None:
    """Short and odd documents are read in one go, those between them fast."""
    long = "---\n" + "".join(f"k{i}: v\n" for i in range(20))
    text = ("---\na: é\n" + "---\n" + "---\nb: 1\n" + long) * 300
    fast = [(p.value, p.line, p.document) for p in yaml_fast.parse(text, "in")]
    assert fast == [(p.value, p.line, p.document) for p in yaml_text.parse(text, "in")]
    assert len(fast) == 1200


def test_many_tag_directives_are_refused() -> None:
    directives = "".join(f"%TAG !a{i}! tag:x,1:\n" for i in range(101))
    assert "line 101, column 1, document 1: more than 100 %TAG directives" in refusal(f"{directives}--- a\n")
    assert raws(f"{directives[: directives.rindex('%TAG')]}--- a\n") == ["a"]


@pytest.mark.slow
def test_objects_larger_than_the_api_server_takes_are_refused() -> None:
    limit = 3 * 1024 * 1024
    fits = json.dumps({"kind": "ConfigMap", "data": "x" * (limit - len('{"kind":"ConfigMap","data":""}'))})
    assert len(raws(fits)) == 1
    large = fits.replace("ConfigMap", "ConfigMaps")
    words = (
        "Request entity too large: limit is 3145728; the object has 3145729 bytes as JSON; "
        "split it (a ResourceSlice into several, other data into ConfigMaps)"
    )
    for text in (large, yaml.safe_dump(json.loads(large), width=2**30), "---\nkind: X\n---\n" + large):
        assert refusal(text).endswith(words)
    many = json.dumps({"kind": "List", "items": [{"kind": "A", "data": "x" * 2_000_000}] * 3})
    assert len(raws(many)) == 3
    assert "line 1, column 1" in refusal(json.dumps({"kind": "List", "items": [json.loads(large)]}))
    aliased = "x: &x [" + "yyyyyyyyyyyyyyyy, " * 2000 + "]\nz: [" + "*x, " * 100 + "]"
    assert "Request entity too large: limit is 3145728" in refusal(aliased)


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_random_bytes_are_read_or_refused(text: bytes) -> None:
    try:
        documents = read_documents(text, "in")
    except DocumentError:
        return
    json.dumps([document.raw for document in documents], allow_nan=False).encode()


YAML_PIECES = st.sampled_from(
    [
        "a",
        "b",
        ": ",
        ":",
        "- ",
        "\n",
        "\n  ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "&x ",
        "*x",
        "<<: ",
        "!!str ",
        "!t ",
        "|\n",
        "'",
        '"',
        "# ",
        "---\n",
        "...\n",
        "? ",
        "%YAML 1.1\n",
        "\t",
        "\\",
        "1",
        ".inf",
        "\ufeff",
        "\x85",
        "\u2028",
        "~",
        "@",
        "\r\n",
        "kind: List\nitems:\n",
    ]
)


@given(st.lists(YAML_PIECES, max_size=25).map("".join))
def test_random_yaml_is_read_or_refused(text: str) -> None:
    try:
        objects = read_objects(text.encode(), "in")
    except DocumentError as error:
        place = (error.source, error.line >= 1, error.column >= 1, error.document >= 1)
    else:
        place = ("in", True, all(str(problem).startswith("in:") for problem in objects.problems), True)
    assert place == ("in", True, True, True)


# --- the fast way reads the same ---

LINES = st.builds(
    lambda indent, dashes, key, value: " " * indent + "- " * dashes + key + value,
    st.sampled_from([0, 0, 2, 2, 4, 4, 1, 3, 6]),
    st.sampled_from([0, 0, 0, 1, 1, 2]),
    st.sampled_from(["a:", "b:", "items:", "x.y/z:", "'q k':", '"dq":', "yes:", "e5:", "n:", "null:", "5:", ""]),
    st.sampled_from(
        [
            "",
            "",
            "",
            " 1",
            " -5",
            " 1.5",
            " 007",
            " 1e3",
            " 0x10",
            " 1_0",
            " 1_0G",
            " 0000:01:00.0",
            " 2020-01-01",
            " 2020-01-01T00:00:00Z",
            " 80Gi",
            " 5E",
            " 1e",
            " yes",
            " n",
            " true",
            " null",
            " True",
            " ~",
            " abc",
            " a b c",
            " a - b",
            " a: b",
            " a:b",
            " http://x:80/y",
            " a #c",
            " a#b",
            " 'x'",
            " 'it''s'",
            ' "x"',
            ' "a\\"b\\n"',
            ' "\\x41"',
            " {}",
            " []",
            " {a: 1, b: 'c'}",
            " {a: yes}",
            " {a: 1e3}",
            " [a, 1, 80Gi]",
            " *x",
            " &x",
            " !!str 5",
            " |",
            " -",
            " x:",
            " <<",
            " .5",
            " 1-2-3",
            " 1.2.3",
            " 5.0",
            " 1.50",
            " 0.25",
            " &x",
            " &y",
            " *x",
            " *y",
            " null x",
            " yes no",
            " {a: b , c: d}",
            " [a,b]",
            " 9223372036854775808",
            " é",
            "x",
        ]
    ),
)
FILLERS = st.sampled_from(["", "  ", "# c", "---", "--- a", "    text"])


@settings(max_examples=sample(400), suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(st.lists(LINES | LINES | LINES | FILLERS, min_size=1, max_size=6))
def test_what_goes_the_fast_way_is_read_as_by_the_exact_way(lines: list[str]) -> None:
    lines = [line for line in lines if yaml_fast.is_unambiguous(line)]
    text = "\n".join(lines) + "\n"
    chunks = [yaml_fast.read_unambiguous(chunk, 1, 1, {}) for chunk in yaml_fast.chunks(text)]
    assume(chunks and None not in chunks)
    fast = [(p.value, p.line, p.document) for p in yaml_fast.parse(text, "in", min_length=0) if p.value is not None]
    exact = [(p.value, p.line, p.document) for p in yaml_text.parse(text, "in") if p.value is not None]
    assert json.dumps(fast) == json.dumps(exact)


AMBIGUOUS = [
    "a: yes",
    "a: y",
    "n: 1",
    "a: 010",
    "a: 1e3",
    "a: 5.0",
    "a: 1_000",
    "a: 0x1f",
    "a: .inf",
    "a: &x 1",
    "a: *x-y",
    "&x a: 1",
    "a: !!str x",
    "<<: {}",
    "a: |",
    "a: >",
    "5: x",
    "true: x",
    "a:\tb",
    "\ta: b",
    "a: é",
    "a: b # c",
    'a: "\\x41"',
    "a: [b",
    "a: {b",
    "a: 'b",
    "? a",
    "%YAML 1.1",
    "a: 12345678901234567890",
    "a: ~",
    "a: True",
    "a: {b: yes}",
    "a: [0777]",
    "plain",
    "--- a",
    "...",
    "a: x\r",
    "a: -",
    "a: @b",
    "a: `b`",
    "a: =",
    " " * 61 + "a: b",
]


@pytest.mark.parametrize("line", AMBIGUOUS)
def test_ambiguous_lines_never_go_the_fast_way(line: str) -> None:
    assert not yaml_fast.is_unambiguous(line)


def slices(count: int) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"node-{number}"},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": f"node-{number}",
                "pool": {"name": f"node-{number}", "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {
                        "name": f"gpu-{index}",
                        "attributes": {
                            "resource.kubernetes.io/pciBusID": {"string": f"0000:{index:02x}:00.0"},
                            "driverVersion": {"version": "570.86.15"},
                            "productName": {"string": "Example A100-80GB"},
                            "date": {"string": "2024-01-01"},
                            "mig": {"bool": False},
                            "numa": {"int": index % 2},
                        },
                        "capacity": {"memory": {"value": "80Gi"}, "cores": {"value": "12"}},
                    }
                    for index in range(32)
                ],
            },
        }
        for number in range(count)
    ]


@pytest.mark.slow
def test_large_files_are_read_the_fast_way_with_the_same_values_and_places(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = slices(12)
    shared = {"x": [1, {"v": "z"}]}
    texts = [
        yaml.safe_dump_all(wanted, sort_keys=False),
        yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": wanted}),
        yaml.safe_dump({"apiVersion": "v1", "items": wanted, "kind": "List"}, default_flow_style=None, width=1000),
        write_documents(wanted),
        yaml.safe_dump({"items": [shared, [shared, wanted], {"a": shared, "b": wanted[0]}]}),
    ]
    exact = [[(p.value, p.line, p.document, p.item_lines) for p in yaml_text.parse(text, "in")] for text in texts]
    monkeypatch.setattr(yaml_text, "parse", None)  # the exact way is not needed
    for text, values in zip(texts, exact, strict=True):
        assert len(text) > yaml_fast.MIN_LENGTH
        assert [(p.value, p.line, p.document, p.item_lines) for p in yaml_fast.parse(text, "in")] == values
    for text in texts[:4]:
        read = read_objects(text.encode(), "in")
        assert [(type(s.object), s.object.to_wire()) for s in read.objects] == [(ResourceSlice, raw) for raw in wanted]


def test_one_odd_document_among_many_is_read_exactly() -> None:
    text = write_documents(slices(12)) + "---\na: yes\nb: &x 0x10\nc: *x\n---\n" + write_documents(slices(1))
    values = raws(text)
    assert (len(values), values[12]) == (14, {"a": True, "b": 16, "c": 16})
    assert refusal(text + "---\na: 1\na: 2\n") == (
        f'in.yaml: line {text.count(chr(10)) + 3}, column 1, document 15: key "a" '
        "is given twice in the same mapping; remove one of them"
    )


def test_the_collector_runs_again_after_reading() -> None:
    assert gc.isenabled()
    refusal("a: [")
    read_documents(b"a: 1", "in")
    assert gc.isenabled()


# --- typed objects ---


def test_faulty_objects_are_problems_and_the_others_are_read() -> None:
    text = """\
apiVersion: v1
kind: Pod
metadata: {name: good}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: bad}
spec:
  driver: 5
  devices: [{name: a, capacity: {x: {value: 1K}}}]
---
kind: Pod
---
[1]
"""
    read = read_objects(text.encode(), "f.yaml")
    assert [(s.object.key, s.source) for s in read.objects] == [("good", DocumentSource("f.yaml", 1, 1))]
    assert [str(problem) for problem in read.problems] == [
        'f.yaml:5 (document 2): ResourceSlice "bad": spec.driver: must be a string, not an integer',
        'f.yaml:5 (document 2): ResourceSlice "bad": spec.devices[0].capacity.x.value: '
        '"1K" is not a quantity: unknown suffix "K" '
        '(write "k" for 1000 or "Ki" for 1024); known are n u m k M G T P '
        "E, Ki Mi Gi Ti Pi Ei and exponents such as e3",
        "f.yaml:12 (document 3): Pod: apiVersion: is required and must be a string",
        "f.yaml:14 (document 4): a Kubernetes object must be a JSON object",
    ]


# --- writing ---

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    [case["yaml"][3:] for case in UPSTREAM if case["yaml"].startswith("a: ")]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_written_yaml_reads_back(value: object) -> None:
    text = write_yaml({"a": value})
    assert [parsed.value for parsed in yaml_text.parse(text, "in")] == [{"a": value}]


@given(TEXTS)
def test_written_strings_are_strings_to_other_readers_too(text: str) -> None:
    assume(text not in ("<<", "="))  # PyYAML has no value for these, quoted or not
    assert yaml.safe_load(write_yaml({"a": text})) == {"a": text}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0000:01:00.0", "'0000:01:00.0'"),
        ("0000:3b:00.0", "'0000:3b:00.0'"),
        ("yes", "'yes'"),
        ("n", "'n'"),
        ("1e3", "'1e3'"),
        ("0777", "'0777'"),
        ("2024-01-01", "'2024-01-01'"),
        ("<<", "'<<'"),
        ("", "''"),
        ("~", "'~'"),
        ("null", "'null'"),
        (".inf", "'.inf'"),
        ("08", "'08'"),
        ("1_0", "'1_0'"),
        ("80Gi", "80Gi"),
        ("gpu.example.com", "gpu.example.com"),
        (5, "5"),
        (True, "true"),
        (None, "null"),
        ("a\nb\n", "|\n  a\n  b"),
        ("a: b", "'a: b'"),
        (" a", "' a'"),
        ([], "[]"),
        ({}, "{}"),
    ],
)
def test_ambiguous_strings_are_quoted(value: object, text: str) -> None:
    assert write_yaml({"k": value}) == f"k: {text}\n"


def test_shared_values_are_written_twice() -> None:
    shared = {"x": "1"}
    assert write_yaml({"a": shared, "b": shared}) == "a:\n  x: '1'\nb:\n  x: '1'\n"


ODD_ENTRIES = (
    "- a: 1\n  b: x",
    "- yes",
    "- text: |\n    - no entry\n    é: 1",
    "- text: >-\n    folded\n    text",
    '- "begins\n- here"',
    "- 'one\n  two'",
    "-\n  a: 1",
    "- - 1\n  - 2",
    "- {a: [1, 2], y: n}",
    "- [a,\n- b]",
    "# remark\n- é",
    "- a: 1\n# remark\n  b: 2",
    "- plain\n  text",
    "- a: 1\n  a: 2",
    "- a: 0x10 # remark",
    "- ? k\n  : v",
    "-",
    "- |\n",
    "- !!str 1",
    "- a:\n  - 1\n  - 2",
    "- items:\n  - 1",
    "-\tx",
)
TAILS = (
    "",
    "kind: List\n",
    "metadata: {}\nkind: List\n",
    "items: []\n",
    "# end\n",
    "- x\n",
    "  odd: 1\n",
    "text: |\n  - no entry\n",
)
HEADS = ("", "apiVersion: v1\n", "# remark\n\n", "---\n", "text: |\n  items:\n  - x\n", "a: 'x\nitems:\n- y'\n")


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(ODD_ENTRIES), min_size=2, max_size=6),
    st.sampled_from(HEADS),
    st.sampled_from(TAILS),
    st.sampled_from((0, 2)),
)
@settings(max_examples=sample(1500))
def test_entry_by_entry_means_the_same_as_in_one_go(entries: list[str], head: str, tail: str, indent: int) -> None:
    """Whatever may be taken apart gives the exact reader's value and places; whatever it refuses is never taken
    apart."""
    inner = "".join(" " * indent + line + "\n" for entry in entries for line in entry.split("\n"))
    text = f"{head}items:\n{inner}{tail}"
    try:
        exact = list(yaml_text.parse(text, "in"))
    except DocumentError:
        exact = []
    apart = yaml_fast.read_by_items(text, "in", 1, 1, {})
    if apart is not None:
        assert [(p.value, p.line, p.document, p.item_lines) for p in exact] == [
            (apart.value, apart.line, apart.document, apart.item_lines)
        ]


def test_one_odd_entry_of_a_large_list_is_read_exactly_and_the_others_fast() -> None:
    many = slices(12)
    odd = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "odd"},
        "data": {"text": "one\n- two\n", "é": "y"},
    }
    text = write_yaml({"apiVersion": "v1", "kind": "List", "items": [*many[:5], odd, *many[5:]], "metadata": {}})
    (exact,) = yaml_text.parse(text, "in")
    apart = yaml_fast.read_by_items(text, "in", 1, 1, {})
    assert apart is not None
    assert (apart.value, apart.line, apart.item_lines) == (exact.value, exact.line, exact.item_lines)
    assert [read.object.name for read in read_objects(text.encode(), "in").objects][5] == "odd"


def test_a_problem_has_no_more_of_a_name_than_a_name_may_have() -> None:
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x" * 100_000}, "spec": {"containers": [1] * 100}}
    problems = read_objects(json.dumps(raw).encode(), "file").problems
    assert len(problems) == 100
    assert str(problems[0]) == f'file:1: Pod "{"x" * 253}…": spec.containers[0]: must be an object, not an integer'
