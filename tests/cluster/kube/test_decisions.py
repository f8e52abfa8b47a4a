"""What the client of a real API server decides without asking it: refusals, pace, pauses, paths, conflicts."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devtools.cluster.scripted_server import status_object
from tests.cluster.contract.running import WIDGET, claim
from tests.cluster.update_with_retry import update_with_retry
from virt_dra.api.core_v1 import Namespace, Pod
from virt_dra.api.meta import ObjectMeta, ObjectT
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.cluster.kinds import resource_of
from virt_dra.cluster.kube import paths as kube_paths
from virt_dra.cluster.kube.errors import refusal
from virt_dra.cluster.kube.limits import TokenBucket
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    StatusCause,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from virt_dra.cluster.watching.backoff import backoff


@pytest.mark.parametrize(
    ("code", "reason", "wanted"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (409, "", Conflict),
        (410, "Expired", Gone),
        (410, "Gone", Gone),
        (413, "RequestEntityTooLarge", TooLarge),
        (422, "Invalid", Invalid),
        (422, "", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "ServerTimeout", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Unavailable),
    ],
)
def test_a_status_becomes_the_ports_exception(code: int, reason: str, wanted: type[ApiError]) -> None:
    error = refusal(code, json.dumps(status_object(code, reason, "text")).encode())
    assert (type(error), str(error), error.status) == (wanted, "text", wanted.status)


def test_what_the_port_has_no_exception_for_keeps_its_code() -> None:
    error = refusal(405, json.dumps(status_object(405, "MethodNotAllowed", "no")).encode())
    assert (type(error), error.status, error.reason, str(error)) == (ApiError, 405, "MethodNotAllowed", "no")
    assert ApiError.status == 500


@pytest.mark.parametrize(
    ("code", "body", "wanted", "text"),
    [
        (502, b"<html>bad gateway</html>", Unavailable, "the server answered 502: <html>bad gateway</html>"),
        (404, b"", NotFound, "the server answered 404"),
        (403, b"\xff" + b"x" * 500, Forbidden, f"the server answered 403: \N{REPLACEMENT CHARACTER}{'x' * 199}…"),
        (
            500,
            b'{"kind": "Status", "message": 7, "reason": [], "details": [], "code": "a"}',
            ApiError,
            "the server answered 500",
        ),
        (
            422,
            b'{"kind": "Status", "reason": "Invalid", "details": {"causes": [7, {"field": 8}]}}',
            Invalid,
            "the server answered 422",
        ),
        (418, b"[1]", ApiError, "the server answered 418: [1]"),
    ],
)
def test_answers_that_are_no_status(code: int, body: bytes, wanted: type[ApiError], text: str) -> None:
    error = refusal(code, body)
    assert (type(error), str(error)) == (wanted, text)


def test_causes_and_times_to_wait_are_kept() -> None:
    causes = [{"reason": "FieldValueInvalid", "message": "Invalid value", "field": "spec"}, {"message": "whole"}]
    error = refusal(422, json.dumps(status_object(422, "Invalid", "bad", causes=causes)).encode())
    assert isinstance(error, Invalid)
    assert error.causes == (StatusCause("spec", "FieldValueInvalid", "Invalid value"), StatusCause("", "", "whole"))
    assert (
        refusal(
            429, json.dumps(status_object(429, "TooManyRequests", "x", retryAfterSeconds=3)).encode(), "7"
        ).retry_after
        == 3
    )
    assert [
        refusal(503, b"", header).retry_after for header in ("7", "", "Wed, 21 Oct 2026 07:28:00 GMT", "-1", "٣")
    ] == [7, *[None] * 4]


@given(st.floats(0.1, 1000), st.integers(1, 50), st.lists(st.floats(0, 2), min_size=1, max_size=100))
def test_the_bucket_keeps_to_its_rate(rate: float, burst: int, gaps: list[float]) -> None:
    """In any span of time no more go on than the burst and what was refilled meanwhile, in the order in which they
    came."""
    bucket, now, begun = TokenBucket(rate, burst), 0.0, []
    for gap in gaps:
        now += gap
        begun.append(now + bucket.take(now))
    assert all(earlier <= later + 1e-9 for earlier, later in pairwise(begun))
    for first, start in enumerate(begun):
        for last in range(first, len(begun)):
            assert last - first + 1 <= burst + (begun[last] - start) * rate + 1e-6
    assert bucket.take(now + 1e6) == 0


def test_no_rate_is_no_limit() -> None:
    bucket = TokenBucket(0, 1)
    assert [bucket.take(0) for _ in range(100)] == [0] * 100


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_pauses_double_up_to_the_longest(attempt: int, chance: float) -> None:
    pause = backoff(attempt, chance, first=0.1, longest=10)
    whole = min(0.1 * 2 ** min(attempt - 1, 60), 10)
    assert whole / 2 <= pause <= whole


def test_paths() -> None:
    assert kube_paths.collection(resource_of(Pod), "") == "/api/v1/pods"
    assert kube_paths.collection(resource_of(Pod), "n") == "/api/v1/namespaces/n/pods"
    assert kube_paths.collection(resource_of(ResourceSlice), "n") == "/apis/resource.k8s.io/v1/resourceslices"
    assert kube_paths.collection(resource_of(Pod), "../x") == "/api/v1/namespaces/-/pods"
    assert kube_paths.item(resource_of(ResourceClaim), "", "a:b", "status") == (
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/a%3Ab/status"
    )
    assert kube_paths.item(resource_of(Namespace), "ignored", "n") == "/api/v1/namespaces/n"
    assert kube_paths.item(resource_of(WIDGET), "n", "w") == "/apis/contract.example.com/v1/namespaces/n/widgets/w"


class Contended(MemoryCluster):
    """Somebody else always writes first, so many times."""

    others = 0

    async def update(self, obj: ObjectT) -> ObjectT:
        if self.others:
            self.others -= 1
            await self.patch(
                type(obj), obj.name, obj.namespace, merge={"metadata": {"labels": {"other": str(self.others)}}}
            )
        return await super().update(obj)


def annotated(obj: ResourceClaim) -> ResourceClaim:
    """With what somebody else wrote last."""
    return obj.with_(metadata=obj.metadata.with_(annotations={"seen": obj.metadata.labels.get("other", "")}))


async def test_a_change_is_made_again_of_what_is_there_after_a_conflict() -> None:
    cluster = Contended.deterministic()
    await cluster.create(claim("n", "c", meta=ObjectMeta(labels={"other": "9"})))
    cluster.others = 3
    changed = await update_with_retry(cluster, ResourceClaim, ("n", "c"), annotated)
    assert (changed.metadata.annotations, changed.metadata.labels) == ({"seen": "0"}, {"other": "0"})
    cluster.others = 6
    with pytest.raises(Conflict):
        await update_with_retry(
            cluster, ResourceClaim, ("n", "c"), lambda obj: annotated(obj).without("spec"), attempts=5
        )
    assert cluster.others == 1
    with pytest.raises(ValueError, match="attempts must be at least 1, not 0"):
        await update_with_retry(cluster, ResourceClaim, ("n", "c"), annotated, attempts=0)


async def test_nothing_is_written_when_nothing_changes() -> None:
    cluster = MemoryCluster.deterministic()
    created = await cluster.create(claim("n", "c"))
    assert await update_with_retry(cluster, ResourceClaim, ("n", "c"), lambda _: None) == created
    assert await update_with_retry(cluster, ResourceClaim, ("n", "c"), lambda obj: obj, known=created) == created
    outdated = created.with_(metadata=created.metadata.with_(resource_version="0", labels={"other": "old"}))
    assert (
        await update_with_retry(cluster, ResourceClaim, ("n", "c"), annotated, known=outdated)
    ).metadata.annotations == {"seen": "old"}
    with pytest.raises(NotFound):
        await update_with_retry(cluster, ResourceClaim, ("n", "x"), annotated)


def test_texts_of_a_refusal_are_of_a_bounded_length() -> None:
    """They go to terminals and logs, and whoever answers may be no API server."""
    cause = {"field": "spec.x", "reason": "FieldValueInvalid", "message": "n" * 40_000}
    status = {"kind": "Status", "reason": "Invalid", "message": "y" * 40_000, "details": {"causes": [cause] * 1_001}}
    error = refusal(422, json.dumps(status).encode())
    assert isinstance(error, Invalid)
    assert str(error) == "y" * 32_768 + "…"
    assert error.causes == (StatusCause("spec.x", "FieldValueInvalid", "n" * 32_768 + "…"),) * 1_000
