"""The parameters of validation: checks from layers above, and the feature gates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from virt_dra.api.feature_gates import PLAIN, FeatureGates

ExpressionCheck = Callable[[str], str | None]
"""Maps an expression to its fault, or None. :data:`TOO_COMPLEX` means that its cost exceeds the limit."""

TOO_COMPLEX = "too complex, exceeds cost limit"

CostEstimate = Callable[[str], int]
"""Maps an expression to its worst-case cost, 0 for one that doesn't compile."""


@dataclass(frozen=True)
class Rules:
    """The context of a validation; immutable. Without a check, expressions are only measured, not compiled.

    Attributes: check_selector: for ``selectors[].cel.expression``. check_derived_attribute: for
        ``derivedAttributes[].expression``. derived_attribute_cost: what such an expression counts for the limit that
        those of a claim have together (A-21.8). gates: Which features the cluster has; without a word those of a plain
        1.37. An object is validated as it would be stored: fields of a gate that is off are dropped before
        (:mod:`virt_dra.api.schemas.field_dropping`).
    """

    check_selector: ExpressionCheck | None = None
    check_derived_attribute: ExpressionCheck | None = None
    derived_attribute_cost: CostEstimate | None = None
    gates: FeatureGates = PLAIN


DEFAULT_RULES = Rules()
