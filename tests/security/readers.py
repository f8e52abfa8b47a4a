"""Every reader of text that somebody else may write: how it is called, how it refuses, and the tokens of its language.

In a token, ``#`` stands for the number of its repetition (names that differ), in an opening too. An opening is what
stands before and after the repeated tokens: a context that the reader is in when it meets them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from launcher.addresses.metadata_files import MetadataError, _from_stream
from launcher.errors import AddressSyntaxError
from launcher.host_addresses.mdev import MdevUuid
from launcher.host_addresses.pci import PciAddress
from launcher.host_addresses.usb import UsbAddress
from launcher.process.waiting import BadFile, read_device_status, read_vmi
from virt_dra.api import names
from virt_dra.api.core_v1 import Pod
from virt_dra.api.feature_gates import FeatureGateError, FeatureGates
from virt_dra.api.integration.attribute_keys import MDEV_UUID, PCI_ADDRESS
from virt_dra.api.integration.device_claims import read_device_claims
from virt_dra.api.integration.paths import DEVICE_CLAIMS_ANNOTATION
from virt_dra.api.meta import parse_time
from virt_dra.api.nearest import nearest
from virt_dra.api.policies.node_selection import integer
from virt_dra.api.quantity import Quantity, QuantityError
from virt_dra.api.reading import json_annotations, yaml_fast
from virt_dra.api.reading.document_error import DocumentError
from virt_dra.api.reading.documents import read_objects, template_action
from virt_dra.api.reading.json_annotations import AnnotationError
from virt_dra.api.semver import SemVer, SemVerError
from virt_dra.api.validation import conditions, formats
from virt_dra.cel.errors import CelError
from virt_dra.cel.expression import compile_expression
from virt_dra.cel.functions.addresses import InvalidAddress, parse_address, parse_prefix
from virt_dra.cel.functions.conversions import to_bool, to_double, to_int, to_uint
from virt_dra.cel.functions.formats import FORMATS
from virt_dra.cel.functions.formatting import FormatFault, parse_format
from virt_dra.cel.functions.patterns import InvalidPattern
from virt_dra.cel.functions.times import parse_duration, parse_timestamp
from virt_dra.cel.functions.urls import InvalidURL, parse_url, query
from virt_dra.cel.syntax.parser import parse
from virt_dra.cel.syntax.tokens import SyntaxFault, tokenize
from virt_dra.cli.jsonl.lines import parse_request
from virt_dra.cli.jsonl.members import BadLine
from virt_dra.cluster.kinds import resource_of
from virt_dra.cluster.kube.decoding import parsed
from virt_dra.cluster.kube.errors import refusal
from virt_dra.cluster.kube.watch import parsed_event
from virt_dra.cluster.memory.selectors import parse_fields, parse_labels
from virt_dra.cluster.port import ApiError
from virt_dra.cluster.refusals import is_version
from virt_dra.doctor.gather import enabled_features
from webhooks.lint.named_driver import named_driver
from webhooks.review import BadReview, check_content_type, read_review

Refusals = tuple[type[Exception], ...]


@dataclass(frozen=True)
class Reader:
    """``limit``: the longest text that reaches the reader, where its caller keeps longer ones away (and how is said
    beside it)."""

    name: str
    read: Callable[[str], object]
    tokens: tuple[str, ...]
    openings: tuple[tuple[str, str], ...] = (("", ""),)
    refusals: Refusals = ()
    limit: int | None = None


def _each(*checks: Callable[[str], object]) -> Callable[[str], object]:
    """All of several checks of one text; generators are run to their end."""

    def read(text: str) -> None:
        for check in checks:
            answer = check(text)
            if isinstance(answer, Iterator):
                deque(answer, maxlen=0)

    return read


def _refusing(read: Callable[[str], object]) -> Callable[[str], object]:
    """Whatever it reads, a refusal is an answer."""

    def quietly(text: str) -> None:
        with suppress(AddressSyntaxError, BadFile, CelError, FormatFault, InvalidAddress, InvalidPattern, InvalidURL):
            read(text)

    return quietly


def _answered(read: Callable[[bytes], object]) -> Callable[[str], object]:
    def quietly(text: str) -> None:
        with suppress(ApiError):
            read(text.encode("utf-8", "surrogatepass"))

    return quietly


def _yaml(text: str) -> object:
    return deque(yaml_fast.parse(text.encode(errors="replace").decode(), "text", 0), maxlen=0)


def _objects(text: str) -> object:
    return read_objects(text.encode("utf-8", "surrogatepass"), "text")


_YAML: Final = (
    " ", "  ", "\t", "\n", "\r", " \n", "a", "a\n", "a:", "a: ", "k#: v\n", "- ", "-\n", "- a\n", "? ", ": ", ",", "[",
    "]", "{", "}", "[a,", "{a: ", "&a ", "&a# ", "- &a# x\n", "*a ", "- *a\n", "!", "!!str ", "!a#!x ", "'", '"', "\\",
    "|\n", ">\n", "|1\n", "#", " # c\n", "# c\n", "---\n", "--- a\n", "...\n", "%YAML 1.1\n", "%TAG !a#! b\n", "%X\n",
    "@", "`", "<<: ", "<<: *a\n", "~", "1", "0", "0x", "1_", "1.", "1e", ":1", "-", "+", ".", "é", "\x85", "\x01",
    "\ud800", "\ufeff", "{{", "{{ a }}", "{%", "items:\n- a\n", "/", "''", '\\"',
)  # fmt: skip
_JSON: Final = (
    " ", "\t", "\n", "{", "}", "[", "]", ",", ":", '"', "\\", '\\"', '"a"', '"a":', '"k#":1,', '{"a":', '{"k#":[', "1",
    "-", "0", ".", "1e", "1,", "1 ", "{} ", "[],", "true", "null ", "NaN", "Infinity", "\\u0000", "\\ud800",
    '"\\ud800",', "é", "\x00", "/", "'", "{{", "a", "--- ",
)  # fmt: skip
_NAME: Final = (
    "a", "A", "1", "0", "-", "_", ".", "/", ":", "a.", "-a", "a-", ".a", "1.", " ", "é", "\n", "!", "\x00", "=", ",",
    "%", "+",
)  # fmt: skip
_DIGITS: Final = (
    "1", "0", "9", ".", "-", "+", "e", "E", "Ki", "m", "n", "k", "_", " ", "x", "٣", "½", "u", ":", "Z", "T", "1.",
    "-1", ".1", "1-", "\n", "s", "h1",
)  # fmt: skip
_CEL: Final = (
    " ", "\n", "a", "1", "1u", "0x", "1.", ".1", "1e", ".", ".a", "a.", "[", "]", "(", ")", "{", "}", ",", ":", "?",
    "!", "-", "+", "*", "/", "%", "<", "==", "&&", "||", "in ", " in a", "'", '"', "\\", "\'\'\'", '"""', "r'", "b'",
    "'a'", "`", "`a`", "//", "// c\n", "a+", "a&&", "a||", "a?a:", "!a", "-1", "[1,", "{1:", "a(", "a.b(", "a[0]", "a{",
    "a{b:", "[1].all(x,", "has(a.b)", "x#+", "é", "\x00", "#", "cel.bind(a,1,", "a ? ", "size(", "''", "as ", "true",
    "device.driver==",
)  # fmt: skip
_VMI: Final = '{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"a"'
_SLICE: Final = (
    '{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":"a"},'
    '"spec":{"driver":"d","pool":{"name":"p"}'
)
_CLAIM: Final = '{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"a"}'
_OBJECT: Final = (
    '{"name":"a#"},', '{"name":"a"},', '{"a#":1},', "{},", "[],", "1,", "null,", '"a",', '{"name":1},', '{"basic":{}},',
    '{"name":"a#","capacity":{"m":{"value":"1Gi"}}},', '{"name":"a#","attributes":{"x":{"string":"a"}}},',
    '{"name":"a#","exactly":{"deviceClassName":"c","selectors":[{"cel":{"expression":"true"}}]}},',
    '{"name":"a#","claimName":"c","requestName":"r"},', '{"name":"a#","resourceClaimName":"c"},',
)  # fmt: skip

READERS: Final = (
    Reader(
        "YAML",
        _yaml,
        _YAML,
        (
            ("", ""),
            ("a: ", ""),
            ("a:\n  - ", "\n"),
            ("[", "]"),
            ("{", "}"),
            ("'", "'"),
            ('"', '"'),
            ("|\n  ", "\n"),
            ("# ", "\n"),
            ("&a x\n---\n", ""),
            ("kind: List\nitems:\n- ", "\n"),
            ("%TAG ", "\n--- a"),
            ("a: &a ", "\nb: *a\n"),
        ),
        (DocumentError,),
    ),
    Reader("manifest", _objects, _YAML, refusals=(DocumentError,)),
    Reader(
        "JSON",
        _objects,
        _JSON,
        (
            ("", ""),
            ("[", "]"),
            ('{"a":', "}"),
            ('["', '"]'),
            ("[1,", "1]"),
            ('{"kind":"List","items":[', "{}]}"),
            ('{"a":1,"a":[', "]}"),
        ),
        (DocumentError,),
    ),
    Reader(
        "objects",
        _objects,
        _OBJECT,
        (
            (_VMI + '},"spec":{"resourceClaims":[', "{}]}}"),
            (_VMI + '},"spec":{"domain":{"devices":{"gpus":[', "{}]}}}}"),
            (_VMI + '},"spec":{"networks":[', "{}]}}"),
            (_SLICE + ',"devices":[', "{}]}}"),
            (_SLICE + ',"sharedCounters":[', "{}]}}"),
            (_CLAIM + ',"spec":{"devices":{"requests":[', "{}]}}}"),
            (_CLAIM + ',"status":{"devices":[', "{}]}}"),
            ('{"kind":"List","items":[', "{}]}"),
        ),
        (DocumentError,),
    ),
    Reader(
        "map of an object",
        _objects,
        ('"a#":"b",', '"a#":1,', '"a":"b",', '"a#":{"string":"a"},', '"a#":{},', '"a#/b":"c",'),
        (
            (_VMI + ',"annotations":{', '"z":"b"}}}'),
            (_SLICE + ',"devices":[{"name":"d","attributes":{', '"z":{}}}]}}'),
            (_VMI + '},"spec":{', '"z":{}}}'),
        ),
        (DocumentError,),
    ),
    Reader(
        "review",
        lambda text: read_review(text.encode("utf-8", "surrogatepass")),
        _JSON,
        (
            ("", ""),
            (
                '{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"a","operation":"CREATE","kind":{},"object":{"a":[',
                "1]}}}",
            ),
            ('{"kind":"', '"}'),
        ),
        (BadReview,),
    ),
    Reader(
        "content type", check_content_type, ("application/json", ";", " ", "/", "a", "=", '"'), refusals=(BadReview,)
    ),
    Reader(
        "request of JSON lines",
        lambda text: parse_request(text.encode("utf-8", "surrogatepass")),
        _JSON,
        (("", ""), ('{"a":[', "1]}"), ('{"a":"', '"}')),
        (BadLine, RecursionError),
    ),
    Reader("JSON of an annotation", lambda text: json_annotations.parse(text, "f"), _JSON, refusals=(AnnotationError,)),
    Reader(
        "annotation device-claims",
        lambda text: read_device_claims({DEVICE_CLAIMS_ANNOTATION: text}),
        ('"a#":{"request":"r","resourceClaimName":"c"},', '"a#":{},', '"a":1,', '"a#":{"b#":1},', *_JSON),
        (("{", '"z":1}'),),
        (AnnotationError,),
    ),
    Reader(
        "metadata file",
        lambda text: _from_stream("f", text),
        _JSON,
        (
            ("", ""),
            ('{"apiVersion":"metadata.resource.k8s.io/v1alpha1","requests":[', "{}]}"),
            ('{"apiVersion":"b"} ', ""),
        ),
        (MetadataError,),
    ),
    Reader(
        "files of the launcher",
        _each(_refusing(lambda text: read_vmi(text, "f")), _refusing(lambda text: read_device_status(text, "f"))),
        _JSON,
    ),
    Reader(
        "answer of the API server",
        _each(
            _answered(parsed),
            lambda text: refusal(500, text.encode("utf-8", "surrogatepass")),
            _answered(lambda body: parsed_event(body, "Pod")),
        ),
        _JSON,
        (("", ""), ('{"kind":"Status","details":{"causes":[', "{}]}}")),
    ),
    Reader(
        "metrics",
        enabled_features,
        (
            "kubernetes_feature_enabled",
            'kubernetes_feature_enabled{name="a',
            '{name="',
            '"',
            "} 1\n",
            "}",
            "{",
            " ",
            "\n",
            "a",
            " 0",
        ),
    ),
    Reader("quantity", _each(Quantity, Quantity.from_json), _DIGITS, refusals=(QuantityError,)),
    Reader(
        "version",
        _each(SemVer.parse, lambda text: SemVer.parse(text, True)),
        (*_NAME, "v", "1.2.3-", "1.2.3+"),
        (("", ""), ("1.2.3-", ""), ("1.2.", "")),
        (SemVerError,),
    ),
    Reader(
        "time",
        parse_time,
        _DIGITS,
        (("", ""), ("2026-01-02T03:04:05", "Z"), ("2026-01-02T03:04:05.", "Z")),
        (ValueError,),
    ),
    Reader(
        "names",
        _each(
            names.dns1123_label,
            names.dns1123_subdomain,
            names.dns1123_subdomain_caseless,
            names.dns1035_label,
            names.label_key,
            names.label_value,
            names.c_identifier,
            names.without_trailing_dash,
            lambda text: formats.fully_qualified_name(text, "f"),
            lambda text: formats.uid(text, "f"),
            lambda text: formats.time(text, "f"),
            conditions._REASON.fullmatch,
            is_version,
            integer,
            PCI_ADDRESS.fullmatch,
            MDEV_UUID.fullmatch,
            lambda text: nearest(text, ["a", text]),
            template_action,
        ),
        (*_NAME, "{{", "}}", "{%"),
        (("", ""), ("a/", ""), ("a", "!")),
    ),
    Reader(
        "addresses", _each(_refusing(PciAddress.parse), _refusing(MdevUuid.parse), _refusing(UsbAddress.parse)), _NAME
    ),
    Reader(
        "label selector",
        parse_labels,
        (
            "a",
            "a#,",
            "=",
            "==",
            "!=",
            "!",
            "(",
            ")",
            ",",
            "<",
            ">",
            " ",
            "a in (b),",
            "a in (",
            "b#,",
            "notin",
            "a=1,",
            "é",
            "\n",
            "!a,",
        ),
        (("", ""), ("a in (", ")"), ("a=", "")),
        (ApiError,),
    ),
    Reader(
        "field selector",
        lambda text: parse_fields(resource_of(Pod), text),
        ("a", "=", "!=", ",", "\\", "\\,", "metadata.name=a,", "a=b,", " ", "\n", "é"),
        (("", ""), ("metadata.name=", "")),
        (ApiError,),
    ),
    Reader(
        "feature gates",
        FeatureGates.parse,
        ("a", "a#=true,", "=", ",", "true", " ", "DRADeviceTaints=true,", "é", "\n"),
        refusals=(FeatureGateError,),
    ),
    Reader(
        "named driver",
        lambda text: named_driver([text]),
        ("device.driver", "==", "'", '"', "a", "-", ".", " ", "&&", "a.", "a-", "||", "\n"),
        (("", ""), ("device.driver == 'a", "'"), ("device.driver == 'a' && ", "")),
    ),
    Reader(
        "CEL tokens",
        tokenize,
        _CEL,
        (("", ""), ("'", "'"), ("'''", "'''"), ("`", "`"), ("1", "")),
        (SyntaxFault,),
        limit=10 * 1024,
    ),
    Reader(
        "CEL syntax",
        parse,
        _CEL,
        (("", ""), ("(", ")"), ("[", "]"), ("{", "}"), ("a(", ")")),
        (SyntaxFault,),
        limit=10 * 1024,
    ),
    Reader("CEL expression", compile_expression, _CEL, refusals=(CelError,), limit=10 * 1024),
    Reader(
        "CEL texts",
        _each(
            _refusing(parse_duration),
            _refusing(parse_timestamp),
            _refusing(parse_address),
            _refusing(parse_prefix),
            _refusing(to_int),
            _refusing(to_uint),
            _refusing(to_double),
            _refusing(to_bool),
            _refusing(lambda text: query(parse_url(text))),
            _refusing(lambda text: list(parse_format(text, 10**9))),
            *(_refusing(named.check) for named in FORMATS.values()),
        ),
        (
            *_DIGITS,
            *_NAME,
            "a=b&",
            "//",
            "[",
            "]",
            "@",
            "#",
            "?",
            "%41",
            "%",
            "%s",
            "%.1f",
            "::",
            "f:",
            "1h",
            "ns",
            "==",
        ),
        (
            ("", ""),
            ("http://", ""),
            ("http://[", "]"),
            ("http://a?", ""),
            ("2026-01-02T03:04:05.", "Z"),
            ("-", "s"),
            ("%.", "f"),
            ("A", "="),
        ),
    ),
)
