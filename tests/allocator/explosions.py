"""Problems of n devices on which a search that only tries and undoes takes exponential time. One function a family.

Each returns what `build.snapshot` takes, the claims, the features that aren't on by default, and the devices that the
first claim gets, by name, or None where nothing fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from devtools.allocator import build

Json = dict[str, Any]
D = build.DRIVER
LIMIT = 32
"""Devices a claim may hold."""


class Problem(NamedTuple):
    given: Json
    claims: list[Json]
    first: list[str] | None
    features: tuple[str, ...] = ()


def _node(devices: Iterable[str | Json], **more: object) -> Json:
    return {"slices": [{"node": "n1", "devices": list(devices), **more}]}


def _pool(counters: dict[str, dict[str, str]], devices: list[Json]) -> Json:
    """Two slices: counter sets, and devices that take from them."""
    slices: list[Json] = [{"counters": counters}, {"devices": devices}]
    return {"slices": [{"name": f"s{i}", "count": 2, "node": "n1", **slice_} for i, slice_ in enumerate(slices)]}


def _with(count: int, **attributes: Callable[[int], object]) -> list[Json]:
    return [
        {"name": f"d{i}", "attributes": {name: value(i) for name, value in attributes.items()}} for i in range(count)
    ]


def _is(name: str, value: int) -> str:
    return f'device.attributes["{D}"].{name} == {value}'


def _claims(count: int, constraints: Sequence[Json] = ()) -> list[Json]:
    """Claims of one request each, which together want ``count`` devices."""
    counts = [LIMIT] * (count // LIMIT) + ([count % LIMIT] if count % LIMIT else [])
    return [
        {"name": f"c{i}", "requests": [{"count": count}], "constraints": list(constraints)}
        for i, count in enumerate(counts)
    ]


def _names(start: int, count: int) -> list[str]:
    return [f"d{i}" for i in range(start, start + count)]


def only_the_last_devices_match(n: int) -> Problem:
    k = min(n // 2, LIMIT)
    devices = _with(n, m=lambda i: 1 if i < n - k else 2)
    devices = devices[n - 2 * k + 1 :]  # one too few of the first kind
    claim = {"requests": [{"count": k}], "constraints": [{"match": f"{D}/m"}]}
    return Problem(_node(devices), [claim], _names(n - k, k))


def last_devices_match_after_many_small_groups(n: int) -> Problem:
    k = 8
    devices = _with(n, m=lambda i: i // 7 if i < n - k else -1)
    return Problem(
        _node(devices), [{"requests": [{"count": k}], "constraints": [{"match": f"{D}/m"}]}], _names(n - k, k)
    )


def one_device_too_few(n: int) -> Problem:
    return Problem(_node(_names(0, n - 1)), _claims(n), None)


def one_device_too_few_of_unlike_ones(n: int) -> Problem:
    devices = _with(n - 1, m=lambda i: i)
    return Problem(_node(devices), _claims(n, [{"distinct": f"{D}/m"}]), None)


def two_requests_one_too_many_in_total(n: int) -> Problem:
    k = min(n, LIMIT)
    requests = [{"name": "a", "count": k // 2}, {"name": "b", "count": k - k // 2}]
    return Problem(_node(_names(0, k - 1)), [{"requests": requests}], None)


def many_requests_one_too_many_in_total(n: int) -> Problem:
    claims = [
        {"name": f"c{c}", "requests": [{"name": f"r{i}"} for i in range(LIMIT)]} for c in range(max(1, n // LIMIT))
    ]
    return Problem(_node(_names(0, LIMIT * len(claims) - 1)), claims, None)


def two_claims_one_too_many_in_total(n: int) -> Problem:
    k = min(n // 2, LIMIT)
    return Problem(_node(_names(0, 2 * k - 1)), [{"name": f"c{c}", "requests": [{"count": k}]} for c in range(2)], None)


def overlapping_selectors_one_too_many(n: int) -> Problem:
    """Three requests, each of which suits two thirds of the devices."""
    k = min(n, LIMIT * 3) // 3
    devices = _with(3 * k - 1, a=lambda i: int(i % 3 != 0), b=lambda i: int(i % 3 != 1), c=lambda i: int(i % 3 != 2))
    claims = [{"name": f"c{letter}", "requests": [{"count": k, "when": [_is(letter, 1)]}]} for letter in "abc"]
    return Problem(_node(devices), claims, None)


def a_failing_later_claim(n: int) -> Problem:
    """The second claim wants two devices that agree, which no two do; the first takes others."""
    devices = _with(n, m=lambda i: i, first=lambda i: int(i < n // 2))
    first = {"name": "c0", "requests": [{"count": min(n // 4, LIMIT), "when": [_is("first", 1)]}]}
    second = {"name": "c1", "requests": [{"count": 2, "when": [_is("first", 0)]}], "constraints": [{"match": f"{D}/m"}]}
    return Problem(_node(devices), [first, second], None)


def a_failing_request_behind_one_that_matters(n: int) -> Problem:
    """What r0 takes decides about r2; the many of r1, in between, don't."""
    devices = _with(n, m=lambda i: i % 2, role=lambda i: 0 if i < 2 else 1 if i < n - 2 else 2)
    requests = [
        {"name": "r0", "when": [_is("role", 0)]},
        {"name": "r1", "count": min(n // 2, LIMIT - 2), "when": [_is("role", 1)]},
        {"name": "r2", "when": [_is("role", 2), _is("m", 2)]},
    ]
    return Problem(
        _node(devices), [{"requests": requests, "constraints": [{"match": f"{D}/m", "requests": ["r0", "r2"]}]}], None
    )


def first_choice_is_wrong_for_the_last_request(n: int) -> Problem:
    """As before, but with the second device for r0 there is a solution."""
    devices = _with(
        n, m=lambda i: 1 if i == 1 else 0 if i == 0 else 1, role=lambda i: 0 if i < 2 else 1 if i < n - 2 else 2
    )
    k = min(n // 2, LIMIT - 2)
    requests = [
        {"name": "r0", "when": [_is("role", 0)]},
        {"name": "r1", "count": k, "when": [_is("role", 1)]},
        {"name": "r2", "when": [_is("role", 2)]},
    ]
    claim = {"requests": requests, "constraints": [{"match": f"{D}/m", "requests": ["r0", "r2"]}]}
    return Problem(_node(devices), [claim], ["d1", *_names(2, k), f"d{n - 2}"])


def a_last_request_that_no_device_suits(n: int) -> Problem:
    requests: list[Json] = [{"name": f"r{i}"} for i in range(LIMIT - 1)] + [{"name": "last", "when": ["false"]}]
    return Problem(_node(_names(0, n)), [{"requests": requests}], None)


def first_available_in_many_requests(n: int) -> Problem:
    requests = [{"name": f"r{i}", "first": [{"count": 4}, {"count": 3}, {"count": 2}, {"count": 1}]} for i in range(16)]
    return Problem(_node(_names(0, 15)), [{"requests": requests}], None)


def first_available_then_one_that_no_device_suits(n: int) -> Problem:
    requests: list[Json] = [{"name": f"r{i}", "first": [{"count": 3}, {"count": 2}, {"count": 1}]} for i in range(10)]
    return Problem(_node(_names(0, n)), [{"requests": [*requests, {"name": "last", "when": ["false"]}]}], None)


def alternatives_that_each_fail_late(n: int) -> Problem:
    """Every alternative finds devices but for its last one."""
    devices = _with(n, m=lambda i: i // 7)
    requests = [
        {"name": f"r{i}", "first": [{"count": 8, "when": ["true"]}, {"count": 9}, {"count": 10}]} for i in range(3)
    ]
    return Problem(_node(devices), [{"requests": requests, "constraints": [{"match": f"{D}/m"}]}], None)


def the_limit_of_a_claim(n: int) -> Problem:
    """Large alternatives leave no room for the later requests, which need two each."""
    requests: list[Json] = [{"name": f"r{i}", "first": [{"count": 8}, {"count": 5}, {"count": 3}]} for i in range(8)]
    requests += [{"name": f"s{i}", "count": 2} for i in range(4)]
    return Problem(_node(_names(0, max(n, LIMIT))), [{"requests": requests}], _names(0, 8 * 3 + 8))


def the_limit_and_a_failing_request(n: int) -> Problem:
    requests: list[Json] = [
        {"name": f"r{i}", "first": [{"count": 8}, {"count": 5}, {"count": 3}, {"count": 1}]} for i in range(10)
    ]
    return Problem(_node(_names(0, n)), [{"requests": [*requests, {"name": "last", "when": ["false"]}]}], None)


def distinct_values(n: int) -> Problem:
    k = min(n // 2, LIMIT)
    devices = _with(n, m=lambda i: i % (k - 1))
    return Problem(_node(devices), [{"requests": [{"count": k}], "constraints": [{"distinct": f"{D}/m"}]}], None)


def distinct_values_of_many_requests(n: int) -> Problem:
    k = min(n // 2, LIMIT)
    devices = _with(n, m=lambda i: i * i % (k - 1))
    requests = [{"name": f"r{i}"} for i in range(k)]
    return Problem(_node(devices), [{"requests": requests, "constraints": [{"distinct": f"{D}/m"}]}], None)


def distinct_values_that_a_later_request_misses(n: int) -> Problem:
    """Every device has a value of its own, but for the two that the last request could have."""
    devices = _with(n, m=lambda i: max(i, 1))
    k = min(n // 2, LIMIT - 2)
    requests = [{"name": "r0", "count": k}, {"name": "r1", "count": 2, "when": [_is("m", 1)]}]
    return Problem(_node(devices), [{"requests": requests, "constraints": [{"distinct": f"{D}/m"}]}], None)


def _partitions(n: int, per_gpu: int, room: int, takes: Callable[[int], int]) -> Json:
    """GPUs with memory ``room`` each, cut into ``per_gpu`` partitions."""
    gpus = n // per_gpu
    devices = [{"name": f"d{i}", "takes": {f"gpu-{i // per_gpu}": {"memory": str(takes(i))}}} for i in range(n)]
    return _pool({f"gpu-{i}": {"memory": str(room)} for i in range(gpus)}, devices)


def counters_that_never_suffice(n: int) -> Problem:
    """One GPU, n partitions of 1, memory for k - 1."""
    k = min(n // 2, LIMIT)
    return Problem(_partitions(n, n, k - 1, lambda i: 1), [{"requests": [{"count": k}]}], None)


def counters_of_many_gpus_that_never_suffice(n: int) -> Problem:
    """Each GPU has room for one of its four partitions."""
    gpus = n // 4
    return Problem(_partitions(n, 4, 5, lambda i: 3), _claims(gpus + 1), None)


def unlike_partitions_that_never_suffice(n: int) -> Problem:
    """Each GPU is whole, two halves or four quarters; wanted are more halves than there are and a few quarters."""
    sizes = (8, 4, 4, 2, 2, 2, 2, 1)
    devices = [
        {
            "name": f"d{i}",
            "attributes": {"size": sizes[i % 8]},
            "takes": {f"gpu-{i // 8}": {"memory": str(sizes[i % 8])}},
        }
        for i in range(n)
    ]
    gpus = n // 8
    given = _partitions(n, 8, 8, lambda i: 1)
    given["slices"][1]["devices"] = devices
    halves = min(2 * gpus, LIMIT) - 1
    requests = [{"name": "half", "count": halves, "when": [_is("size", 4)]}]
    rest = {
        "name": "c1",
        "requests": [{"name": "quarter", "count": 8 * gpus // 2 - 2 * halves + 1, "when": [_is("size", 2)]}],
    }
    return Problem(given, [{"name": "c0", "requests": requests}, rest], None)


def _grouped(n: int, per_set: int) -> Json:
    """Counter sets with room for all, but half of the devices of each are in one group and half in another."""
    devices = [
        {
            "name": f"d{i}",
            "takes": {f"gpu-{i // per_set}": {"slots": "1"}},
            "groups": {f"gpu-{i // per_set}": ["mig" if i % 2 else "mps"]},
        }
        for i in range(n)
    ]
    counters = {f"gpu-{i}": {"slots": "100"} for i in range(n // per_set)}
    return {
        "slices": [
            {"name": "s0", "count": 2, "node": "n1", "counters": counters},
            {"name": "s1", "count": 2, "node": "n1", "devices": devices},
        ]
    }


def compatibility_groups_too_small(n: int) -> Problem:
    k = min(n // 2, LIMIT - 1)
    return Problem(_grouped(2 * k, 2 * k), [{"requests": [{"count": k + 1}]}], None, ("compatibility_groups",))


def compatibility_groups_of_many_sets_too_small(n: int) -> Problem:
    return Problem(_grouped(n, 8), _claims(n // 2 + 1), None, ("compatibility_groups",))


def shared_capacity_that_never_suffices(n: int) -> Problem:
    """Cards with room for three of the requests each, one request too many."""
    cards = max(n // 16, 2)
    devices = [
        {"name": f"d{i}", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10"}}}
        for i in range(cards)
    ]
    wanted = {"capacity": {"requests": {"memory": "3"}}}
    count = 3 * cards + 1
    claims = [
        {"name": f"c{c}", "requests": [{"name": f"r{i}", **wanted} for i in range(min(LIMIT, count - c))]}
        for c in range(0, count, LIMIT)
    ]
    return Problem(_node(devices), claims, None)


def shared_capacity_of_unlike_wishes(n: int) -> Problem:
    devices = [
        {"name": f"d{i}", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10"}}} for i in range(8)
    ]
    wishes = [3, 5, 2, 4, 1, 3, 2] * 4 + [1]
    requests = [{"name": f"r{i}", "capacity": {"requests": {"memory": str(wish)}}} for i, wish in enumerate(wishes)]
    return Problem(_node(devices), [{"requests": requests}], None)


def _sharing(cards: int, **amounts: int) -> Json:
    capacity = {name: {"value": str(amount)} for name, amount in amounts.items()}
    return _node([{"name": f"d{i}", "allowMultipleAllocations": True, "capacity": capacity} for i in range(cards)])


def _wishes(count: int, **amounts: Callable[[int], int]) -> list[Json]:
    """Requests of one device each, in as many claims as it takes."""
    requests = [
        {"name": f"r{i}", "capacity": {"requests": {name: str(amount(i)) for name, amount in amounts.items()}}}
        for i in range(count)
    ]
    return [{"name": f"c{start}", "requests": requests[start : start + LIMIT]} for start in range(0, count, LIMIT)]


def shared_capacity_of_two_dimensions(n: int) -> Problem:
    """Two of the requests fit on each card, whichever they are; more than that are wanted, though less than the sums
    allow."""
    cards = n * 8 // 19
    return Problem(_sharing(cards, bw=10, mem=10), _wishes(n, bw=lambda i: 3 + i % 3, mem=lambda i: 5 - i % 3), None)


def shared_capacity_of_two_sizes(n: int) -> Problem:
    """A card holds one of the large ones or two of the small ones; half a card is wasted per large one, which no sum
    sees."""
    half = n // 2
    return Problem(_sharing(half + half // 2 - 1, bw=10), _wishes(n, bw=lambda i: 5 + i % 2), None)


def many_alternatives_of_many_claims_one_too_many(n: int) -> Problem:
    requests = [{"name": f"r{i}", "first": [{"count": 8 - k} for k in range(8)]} for i in range(LIMIT)]
    claims = [{"name": f"c{c}", "requests": requests} for c in range(max(1, n // LIMIT))]
    return Problem(_node(_names(0, LIMIT * len(claims) - 1)), claims, None)


def admin_access_in_between(n: int) -> Problem:
    """No administrator's request may have what the claim holds by a request before it."""
    requests: list[Json] = [
        {"name": f"{kind}{i}"} | ({"adminAccess": True} if kind == "m" else {})
        for i in range(10)
        for kind in ("a", "m")
    ]
    return Problem(_node(_names(0, 10)), [{"requests": requests}], None)


def groups_of_seven(n: int) -> Problem:
    devices = _with(max(n, 300), m=lambda i: i // 7)
    return Problem(_node(devices), [{"requests": [{"count": 8}], "constraints": [{"match": f"{D}/m"}]}], None)


def groups_of_seven_of_many_requests(n: int) -> Problem:
    devices = _with(max(n, 300), m=lambda i: i % 43)
    requests = [{"name": f"r{i}"} for i in range(8)]
    return Problem(_node(devices[:300]), [{"requests": requests, "constraints": [{"match": f"{D}/m"}]}], None)


def all_in_a_later_claim(n: int) -> Problem:
    """The first claim must leave alone what the second wants all of: the first half."""
    k = min(n // 2, LIMIT)
    devices = _with(n, first=lambda i: int(i < k))
    claims = [
        {"name": "c0", "requests": [{"count": k}]},
        {"name": "c1", "requests": [{"all": True, "when": [_is("first", 1)]}]},
    ]
    return Problem(_node(devices), claims, _names(k, k))


def all_in_a_later_claim_one_too_many(n: int) -> Problem:
    k = min(n // 2, LIMIT)
    devices = _with(2 * k, first=lambda i: int(i < k))
    claims = [
        {"name": "c0", "requests": [{"count": k}]},
        {"name": "c1", "requests": [{"all": True, "when": [_is("first", 0)]}]},
        {"name": "c2", "requests": [{}]},
    ]
    return Problem(_node(devices), claims, None)


def admin_access_one_too_many(n: int) -> Problem:
    k = min(n, LIMIT)
    requests = [
        {"name": "a", "count": k // 2, "adminAccess": True},
        {"name": "b", "count": k - k // 2, "adminAccess": True},
    ]
    return Problem(_node(_names(0, k - 1)), [{"requests": requests}], None)


def list_attributes(n: int) -> Problem:
    """Neighbours share a value, but no value belongs to more than two devices."""
    devices = _with(n, near=lambda i: {"ints": [i, i + 1]})
    claim = {"requests": [{"count": 3}], "constraints": [{"match": f"{D}/near"}]}
    return Problem(_node(devices), [claim], None, ("list_type_attributes",))


def list_attributes_of_many_values(n: int) -> Problem:
    """64 devices with 47 values each, in four groups that share some; 17 are wanted of groups of 16."""
    devices = _with(
        64, near=lambda i: {"ints": [1000 * (i % 4) + (i * 7 + j) % 60 for j in range(46)] + [9000 + i % 4]}
    )
    requests = [{"name": f"r{i}"} for i in range(17)]
    return Problem(
        _node(devices),
        [{"requests": requests, "constraints": [{"match": f"{D}/near"}]}],
        None,
        ("list_type_attributes",),
    )


def distinct_lists(n: int) -> Problem:
    """Every list has one of k - 1 common values."""
    k = min(n // 2, LIMIT)
    devices = _with(n, near=lambda i: {"ints": [i % (k - 1), 1000 + i]})
    claim = {"requests": [{"count": k}], "constraints": [{"distinct": f"{D}/near"}]}
    return Problem(_node(devices), [claim], None, ("list_type_attributes",))


def two_constraints_at_once(n: int) -> Problem:
    """Same root, different index: each root has eight devices with seven indices."""
    devices = _with(n, root=lambda i: i // 8, index=lambda i: min(i % 8, 6))
    claim = {"requests": [{"count": 8}], "constraints": [{"match": f"{D}/root"}, {"distinct": f"{D}/index"}]}
    return Problem(_node(devices), [claim], None)


def two_matches_at_once(n: int) -> Problem:
    """Rows and columns of four: no five devices agree in both."""
    devices = _with(n, row=lambda i: i // 16, column=lambda i: i % 4)
    claim = {
        "requests": [{"name": f"r{i}"} for i in range(5)],
        "constraints": [{"match": f"{D}/row"}, {"match": f"{D}/column"}],
    }
    return Problem(_node(devices), [claim], None)


def taints_leave_one_too_few(n: int) -> Problem:
    devices: list[Json] = [
        {"name": f"d{i}", "taints": [{"key": "k", "effect": "NoSchedule"}] if i % 2 else []} for i in range(n)
    ]
    return Problem(_node(devices), _claims(n // 2 + 1), None)


FAMILIES: tuple[Callable[[int], Problem], ...] = (
    only_the_last_devices_match,
    last_devices_match_after_many_small_groups,
    one_device_too_few,
    one_device_too_few_of_unlike_ones,
    two_requests_one_too_many_in_total,
    many_requests_one_too_many_in_total,
    two_claims_one_too_many_in_total,
    overlapping_selectors_one_too_many,
    a_failing_later_claim,
    a_failing_request_behind_one_that_matters,
    first_choice_is_wrong_for_the_last_request,
    a_last_request_that_no_device_suits,
    first_available_in_many_requests,
    first_available_then_one_that_no_device_suits,
    alternatives_that_each_fail_late,
    the_limit_of_a_claim,
    the_limit_and_a_failing_request,
    distinct_values,
    distinct_values_of_many_requests,
    distinct_values_that_a_later_request_misses,
    counters_that_never_suffice,
    counters_of_many_gpus_that_never_suffice,
    unlike_partitions_that_never_suffice,
    compatibility_groups_too_small,
    compatibility_groups_of_many_sets_too_small,
    shared_capacity_that_never_suffices,
    shared_capacity_of_unlike_wishes,
    shared_capacity_of_two_dimensions,
    shared_capacity_of_two_sizes,
    many_alternatives_of_many_claims_one_too_many,
    admin_access_in_between,
    groups_of_seven,
    groups_of_seven_of_many_requests,
    all_in_a_later_claim,
    all_in_a_later_claim_one_too_many,
    admin_access_one_too_many,
    list_attributes,
    list_attributes_of_many_values,
    distinct_lists,
    two_constraints_at_once,
    two_matches_at_once,
    taints_leave_one_too_few,
)
