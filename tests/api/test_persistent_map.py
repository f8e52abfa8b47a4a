"""The persistent map does what a dictionary does, never changes, and a change costs far less than a copy."""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api.persistent_map import PersistentMap

KEYS = st.one_of(st.integers(0, 60), st.tuples(st.text("ab", max_size=2), st.integers(0, 9)))
CHANGES = st.lists(st.tuples(st.dictionaries(KEYS, st.integers()), st.lists(KEYS)), max_size=12)


class Unlucky(str):
    """A key that shares its bucket with all others of its kind."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 7


@given(st.dictionaries(KEYS, st.integers()), CHANGES)
def test_it_equals_a_dictionary_after_any_changes_and_keeps_earlier_states(
    first: dict[object, int], changes: list[tuple[dict[object, int], list[object]]]
) -> None:
    expected, copy = dict(first), PersistentMap(first)
    states = [(dict(expected), copy)]
    for put, gone in changes:
        for key in gone:
            expected.pop(key, None)
        expected.update(put)
        copy = copy.changed(put, gone)
        states.append((dict(expected), copy))
    for plain, state in states:
        assert dict(state) == plain == dict(state.items())
        assert state == plain
        assert state == PersistentMap(plain)
        assert hash(state) == hash(PersistentMap(plain))
        assert (len(state), sorted(map(repr, state)), sorted(state.values())) == (
            len(plain),
            sorted(map(repr, plain)),
            sorted(plain.values()),
        )
        assert all(key in state and state[key] == state.get(key) == value for key, value in plain.items())
        assert ("absent" in state, state.get("absent"), state.get("absent", 3)) == (False, None, 3)
        with pytest.raises(KeyError):
            state["absent"]


def test_growing_and_shrinking_one_by_one_keeps_every_entry() -> None:
    copy: PersistentMap[int, int] = PersistentMap()
    for number in range(3000):
        copy = copy.set(number, -number)
    assert dict(copy) == {number: -number for number in range(3000)}
    for number in range(2999):
        copy = copy.without(number)
    assert (dict(copy), len(copy), len(copy._buckets)) == ({2999: -2999}, 1, 2)


def test_keys_of_one_hash_are_told_apart() -> None:
    copy = PersistentMap((Unlucky(number), number) for number in range(200))
    assert [copy[Unlucky(number)] for number in range(200)] == list(range(200))
    assert len(copy.without(*(Unlucky(number) for number in range(199)))) == 1


def test_what_changes_nothing_gives_the_same_map_and_copies_are_itself() -> None:
    first_copy = PersistentMap({"a": 1})
    assert first_copy.without("b") is first_copy
    assert first_copy.changed({}) is first_copy
    assert copy.copy(first_copy) is first_copy
    assert pickle.loads(pickle.dumps(first_copy)) == first_copy


def test_a_map_differs_from_another_in_one_value_and_from_what_is_no_mapping() -> None:
    copy = PersistentMap({number: number for number in range(100)})
    assert copy != copy.set(50, 0)
    assert copy != 5
    assert repr(PersistentMap({"a": 1})) == "PersistentMap({'a': 1})"


def test_a_change_costs_a_small_part_of_a_copy_and_grows_slower_than_the_map() -> None:
    """Of 100,000 entries a change is about 300 times cheaper than a copied dictionary; 10 is asked for."""

    def cpu(work: Callable[[], object], times: int) -> float:
        best = float("inf")
        for _ in range(5):
            start = time.process_time()
            for _ in range(times):
                work()
            best = min(best, (time.process_time() - start) / times)
        return best

    plain = {("namespace", f"name-{number}"): number for number in range(100_000)}
    small: PersistentMap[tuple[str, str], int] = PersistentMap(dict(list(plain.items())[:1000]))
    large: PersistentMap[tuple[str, str], int] = PersistentMap(plain)
    key = ("namespace", "name-500")
    change = cpu(lambda: large.set(key, -1), 2000)
    assert change * 10 < cpu(lambda: {**plain}, 20)
    assert change < 20 * cpu(
        lambda: small.set(key, -1), 2000
    )  # 100 times the entries; √100 is 10, most of it is constant
