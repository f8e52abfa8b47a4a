"""What validation has to be told: the checks that live in layers above, and the feature gates that change a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

ExpressionCheck = Callable[[str], str | None]
"""The text of an expression -> what is wrong with it, or None. :data:`TOO_COMPLEX` says that its cost is over the limit."""

TOO_COMPLEX = "too complex, exceeds cost limit"


@dataclass(frozen=True)
class Rules:
    """The context of a validation; immutable. Without a check, expressions are only measured, not compiled.

    Attributes:
        check_selector: for ``selectors[].cel.expression``.
        check_derived_attribute: for ``derivedAttributes[].expression``.
        fractional_capacity: DRAFractionalCapacityRange: ranges may have fractional bounds (C-14.5). Off in a plain 1.37, which is
            compatible with 1.36; on here, because we implement it.
        partition_types: DRAPartitionableDevicesType. Off in Kubernetes by default; on here, because we implement it.
    """

    check_selector: ExpressionCheck | None = None
    check_derived_attribute: ExpressionCheck | None = None
    fractional_capacity: bool = True
    partition_types: bool = True


DEFAULT_RULES = Rules()
