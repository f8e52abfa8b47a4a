"""Which programs from outside the running test may use, by its markers. It knows nothing of pytest: tests/conftest.py
sets it."""

from __future__ import annotations

from collections.abc import Iterable

_permitted: frozenset[str] | None = None


class NotPermitted(AssertionError):
    """A test that uses what it isn't marked for."""


def permit(names: Iterable[str] | None) -> None:
    """Only these from now on. None: everything, as outside of tests."""
    global _permitted  # noqa: PLW0603 - one test runs at a time
    _permitted = None if names is None else frozenset(names)


def use(name: str) -> None:
    """To be called before such a program is started or looked for. Raises :class:`NotPermitted`."""
    if _permitted is not None and name not in _permitted:
        raise NotPermitted(
            f"this test uses what pytest.mark.{name} stands for, and isn't marked so: "
            "make check would run it. Mark the test, or its module"
            f" with pytestmark; pyproject.toml says what each marker means"
        )
