"""Expressions that an API server stores and that take long: of the issue, and made from what they have in common."""

from __future__ import annotations

from typing import Final

_NUMBERS: Final = ",".join(str(number) for number in range(10, 100))
_FEW: Final = ",".join(str(number) for number in range(10, 55))

HOSTILE: Final = {
    "patterns made in nested loops": rf"[{_NUMBERS}].exists(i, [{_NUMBERS}].exists(j, "
    rf"'a'.matches(r'\pL{{9'+'10}}'))) || true",
    "a new pattern in each step": (
        rf"[{_NUMBERS}].exists(i, [{_NUMBERS}].exists(j, 'a'.matches(r'\pL{{' "
        rf"+ string(100 + i) + '}}' + string(j)))) || true"
    ),
    "patterns without a loop": " || ".join(rf"'a'.matches(r'\pL{{9'+'{number}}}')" for number in range(10, 210))
    + " || true",
    "loops in loops": f"[{_FEW}].all(x, [{_FEW}].all(y, [{_FEW}].all(z, x + y + z > 0)))",
    "equality of what doubles": (
        "cel.bind(a, [[1, 2], [3, 4]], "
        + "".join(f"cel.bind({new}, {old} + {old}, " for old, new in zip("abcdefghijklm", "bcdefghijklmn", strict=True))
        + "n == n"
        + ")" * 14
    ),
    "texts that find all": f"[{_NUMBERS}].all(x, [{_NUMBERS}].all(y, "
    f"'{'abcdefghij' * 20}'.findAll('[a-z]').size() > 0))",
}
