"""How long a VM keeps its devices: what its annotations mean, and which of them is heard."""

from __future__ import annotations

from datetime import timedelta

import pytest

from virt_dra.api.keeping.terms import DEFAULT_NODE_LOSS, KeepingError, KeepTerms, keep_terms

KEEP, LOSS = "virt-dra.io/keep-devices", "virt-dra.io/on-node-loss"
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("annotations", "terms"),
    [
        ([{}], None),
        ([{KEEP: "false"}], None),
        ([{KEEP: "true"}], KeepTerms(None, DEFAULT_NODE_LOSS)),
        ([{KEEP: "24h"}], KeepTerms(24 * HOUR, DEFAULT_NODE_LOSS)),
        ([{KEEP: "1d12h"}], KeepTerms(36 * HOUR, DEFAULT_NODE_LOSS)),
        ([{KEEP: "90m", LOSS: "30s"}], KeepTerms(1.5 * HOUR, timedelta(seconds=30))),
        ([{KEEP: "true", LOSS: "never"}], KeepTerms(None, None)),
        ([{LOSS: "never"}], None),
        ([{}, {KEEP: "2h"}], KeepTerms(2 * HOUR)),
        ([{KEEP: "1h"}, {KEEP: "2h", LOSS: "never"}], KeepTerms(HOUR)),
        ([{KEEP: "false"}, {KEEP: "true"}], None),
        ([{LOSS: "never"}, {KEEP: "2h", LOSS: "5m"}], KeepTerms(2 * HOUR, None)),
        ([{LOSS: "5m"}, {LOSS: "never"}, {KEEP: "2h"}], KeepTerms(2 * HOUR, timedelta(minutes=5))),
        ([{LOSS: "never"}, {KEEP: "false"}], None),
    ],
)
def test_the_first_place_that_speaks_of_keeping_is_heard(
    annotations: list[dict[str, str]], terms: KeepTerms | None
) -> None:
    assert keep_terms(*annotations) == terms


NEITHER = "nor a duration between 1s and 3650d, such as 30m, 24h or 1d12h"


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        ({KEEP: ""}, f'{KEEP}: "" is neither "true", "false" {NEITHER}'),
        ({KEEP: "True"}, f'{KEEP}: "True" is neither "true", "false" {NEITHER}'),
        ({KEEP: "0s"}, f'{KEEP}: "0s" is neither "true", "false" {NEITHER}'),
        ({KEEP: "3651d"}, f'{KEEP}: "3651d" is neither "true", "false" {NEITHER}'),
        ({KEEP: "-1h"}, f'{KEEP}: "-1h" is neither "true", "false" {NEITHER}'),
        ({KEEP: "1h\n"}, f'{KEEP}: "1h\\n" is neither "true", "false" {NEITHER}'),
        ({KEEP: "9" * 5000 + "h"}, f'{KEEP}: "{"9" * 60}\\u2026" is neither "true", "false" {NEITHER}'),
        ({KEEP: "true", LOSS: "true"}, f'{LOSS}: "true" is neither "never" {NEITHER}'),
    ],
)
def test_another_value_is_refused_with_what_is_allowed(annotations: dict[str, str], text: str) -> None:
    with pytest.raises(KeepingError) as refused:
        keep_terms(annotations)
    assert str(refused.value) == text
