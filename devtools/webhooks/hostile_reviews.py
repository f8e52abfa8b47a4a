"""Hostile reviews by the thousand, the same for the same seed.

Bytes that are no JSON, JSON that is no review, reviews of absurd objects, texts that try to be something else where
they are shown.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from devtools.webhooks.serving import KNOWLEDGE, SPEC, launcher_pod, review, vm, vmi
from virt_dra.api.kubevirt_versions import NEWEST, Gates
from virt_dra.api.wire import WireError
from virt_dra.cli.jsonl.vmi_members import read_vmi
from virt_dra.cluster.memory.patches import patched
from webhooks import vmi as vmi_rules
from webhooks.review import read_review
from webhooks.validation import WEBHOOKS, verdict_on

TEXTS = (
    "",
    "a" * 5000,
    "a\nb",
    '"}, "allowed": true, {"',
    "\x00\x1b[2J",
    "\u202egnp.exe",
    "<hostdev/>]]>&lt;",
    "${jndi:ldap://x}",
    "../../../etc/passwd",
    "%s%n{0}{name}",
    "\U0001f4a3" * 300,
    "kube-system/secret",
    "__class__",
)
SCALARS: tuple[object, ...] = (None, True, False, 0, -1, 2**31, 2**63, 2**64, 10**400, 1.5, 1e308, *TEXTS)
RAW = (
    b"",
    b"null",
    b"\xff\xfe{\x00}\x00",
    b"\xef\xbb\xbf{}",
    b'{"a":' * 50_000,
    b"[" * 200_000,
    b'{"x": 1e400}',
    b'{"x": ' + b"9" * 20_000 + b"}",
    b'{"uid": "a", "uid": "b"}',
    b"---\nkind: AdmissionReview\n",
    b"&a [*a, *a]",
    b"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'b'>]>",
    b"PK\x03\x04",
    b"\x1f\x8b\x08",
    b'{"kind": "AdmissionReview"',
    b"{}" * 10_000,
)


@dataclass(frozen=True)
class Hostile:
    """``object``: the VM or VMI of a well-formed review, else None. ``pod``: the launcher pod of one."""

    body: bytes
    path: str
    object: dict[str, Any] | None
    pod: dict[str, Any] | None = None


def hostile_reviews(seed: int) -> Iterator[Hostile]:
    """Without end."""
    dice = random.Random(seed)
    makers: tuple[Callable[[random.Random], Hostile], ...] = (
        _raw,
        _damaged,
        _misshapen_review,
        *(_hostile_object,) * 5,
        _hostile_pod,
        _hostile_pod,
    )
    while True:
        yield _large(dice) if dice.random() < 0.003 else dice.choice(makers)(dice)


def _raw(dice: random.Random) -> Hostile:
    return Hostile(dice.choice(RAW), "/validate-vmi", None)


def _large(dice: random.Random) -> Hostile:
    """As large as a request may be, with a fault in each of a million places, or texts of megabytes."""
    lists: tuple[object, ...] = (
        [0] * 900_000,
        [None] * 500_000,
        [{}] * 900_000,
        [{"name": "g"}] * 180_000,
        [{"name": "!" * 2_900_000}],
    )
    if dice.random() < 0.5:
        spec: dict[str, Any] = {"resourceClaims": dice.choice(lists)}
    else:
        spec = {"domain": {"devices": {dice.choice(("gpus", "hostDevices", "interfaces", "x")): dice.choice(lists)}}}
    return Hostile(json.dumps(review(vmi(spec)), separators=(",", ":")).encode(), "/validate-vmi", None)


def _damaged(dice: random.Random) -> Hostile:
    """A good review in which bytes are changed, removed or doubled, such that it isn't known what it is now."""
    text = bytearray(json.dumps(review(vmi())).encode())
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(text))
        change = dice.randrange(4)
        if change == 0:
            text[at] = dice.randrange(256)
        elif change == 1:
            del text[at : at + dice.randint(1, 40)]
        elif change == 2:
            text[at:at] = text[at : at + dice.randint(1, 40)]
        else:
            text[at:at] = dice.choice((b"\x00", b"\\u0000", b"\\ud800", b"{", b"]", b",,", b"1e999", b'"'))
    return Hostile(bytes(text), "/validate-vmi", None)


def _misshapen_review(dice: random.Random) -> Hostile:
    given = review(vmi())
    holder = given if dice.random() < 0.3 else given["request"]
    holder[dice.choice(sorted(holder))] = _value(dice, 3)
    return Hostile(_text(given), "/validate-vmi", None)


def _hostile_object(dice: random.Random) -> Hostile:
    """A review as an API server writes it, of an object with hostile values at random places."""
    kind, make = dice.choice((("vmi", vmi), ("vm", vm)))
    obj = make(json.loads(json.dumps(SPEC)))
    for _ in range(dice.randint(1, 4)):
        _change(dice, obj)
    if dice.random() < 0.1:
        many = [
            {"name": f"g{n}", **({"claimName": "c"} if dice.random() < 0.5 else {})}
            for n in range(dice.randint(10, 400))
        ]
        obj["spec"] = {"domain": {"devices": {dice.choice(("gpus", "hostDevices")): many}}}
        obj = make(obj["spec"])
    obj["kind"] = make()["kind"]
    return Hostile(_text(review(obj)), f"/validate-{kind}", obj)


ANNOTATIONS = (
    '{"g": {"resourceClaimName": "c", "request": "r"}}',
    '{"g": {"resourceClaimTemplateName": "../x", "request": "r"}}',
    '{"g": {"request": "r"}, "g": 1}',
    '{"' + "g" * 70_000 + '": {}}',
    "[" * 10_000,
    '{"a": ' * 5000,
    "{" + ",".join(f'"g{n}": 0' for n in range(3000)) + "}",
    "metadata-shim",
    "device-plugin",
    "native",
    *TEXTS,
)
KEYS = ("integration-path", "device-claims", "integration", "device-status", "lint-ignore", "\x00")


def _hostile_pod(dice: random.Random) -> Hostile:
    """A launcher pod with hostile annotations, claims and values at random places."""
    claims = [
        (dice.choice(("c", "d", "virt-dra-0", *TEXTS)), dice.choice(("r", "..", "a/b", *TEXTS)))
        for _ in range(dice.randrange(4))
    ]
    pod = launcher_pod((("c", "r"), *claims))
    for _ in range(dice.randrange(3)):
        pod["metadata"]["annotations"][f"virt-dra.io/{dice.choice(KEYS)}"] = dice.choice(ANNOTATIONS)
    if dice.random() < 0.3:
        name = dice.choice(("c", "virt-dra-0", *TEXTS))
        pod["spec"]["resourceClaims"].append(
            {"name": name, dice.choice(("resourceClaimName", "x")): dice.choice(TEXTS)}
        )
    if dice.random() < 0.1:
        pod["spec"]["containers"][0]["resources"]["claims"] = [
            {"name": "c", "request": f"r{n}"} for n in range(dice.randint(10, 3000))
        ]
    for _ in range(dice.randrange(3)):
        _change(dice, pod)
    pod["kind"] = "Pod"
    return Hostile(_text(review(pod)), "/mutate-launcher-pod", None, pod)


def _change(dice: random.Random, obj: dict[str, Any]) -> None:
    """One member or item somewhere below becomes something else, twice, or goes."""
    place: Any = obj
    while True:
        keys: list[Any] = (
            [key for key in place if key not in ("kind", "apiVersion")]
            if isinstance(place, dict)
            else [*range(len(place))]
        )
        if not keys:
            return
        key = dice.choice(keys)
        inner = place[key]
        if isinstance(inner, dict | list) and inner and dice.random() < 0.8:
            place = inner
            continue
        action = dice.randrange(4)
        if action == 0:
            del place[key]
        elif action == 1 and isinstance(place, list):
            place.append(inner)
        elif action == 2 and isinstance(place, dict):
            place[dice.choice(TEXTS)] = inner
        else:
            place[key] = _value(dice, 3)
        return


def _value(dice: random.Random, depth: int) -> object:
    kind = dice.randrange(5) if depth else 0
    if kind == 1:
        return [_value(dice, depth - 1) for _ in range(dice.randrange(4))]
    if kind == 2:
        return {dice.choice(TEXTS): _value(dice, depth - 1) for _ in range(dice.randrange(4))}
    return dice.choice(SCALARS)


def _text(value: object) -> bytes:
    return json.dumps(value).encode()


def expected(hostile: Hostile) -> tuple[bool, str]:
    """Whether an object of a well-formed review is allowed, and the message: as KubeVirt's rules say that read it by
    themselves."""
    try:
        verdict = vmi_rules.review(read_vmi(json.loads(json.dumps(hostile.object))), Gates.for_version(NEWEST))
    except WireError as error:
        return False, ", ".join(message for _, message in error.problems)
    return verdict.allowed, verdict.message


def is_settled(pod: dict[str, Any], response: dict[str, Any]) -> bool:
    """Whether what a launcher pod was answered can be done, is no more than ours, and leaves nothing to be done a
    second time."""
    if not response["allowed"]:
        return bool(response["status"]["details"]["causes"])
    operations = json.loads(base64.b64decode(response.get("patch", "W10=")))
    changed = patched(pod, operations)
    assert isinstance(changed, dict)
    again = verdict_on(WEBHOOKS["/mutate-launcher-pod"], read_review(json.dumps(review(changed)).encode()), KNOWLEDGE)
    return again.allowed and not again.patch and all("virt-dra" in json.dumps(operation) for operation in operations)
