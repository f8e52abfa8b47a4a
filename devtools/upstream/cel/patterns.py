"""Random regular expressions: pieces of the syntax, right and wrong, put together without a grammar."""

from __future__ import annotations

import json
from random import Random

from devtools.cel.answers import Question

_PIECES = (
    *("a", "b", "A", "K", "é", "ſ", "0", "日", "\n", "\x00", "a-z", "z-a", "-", "]", "}", "|", "||", "^", "$", ".", "\\"),
    *("(", ")", "(?:", "(?i)", "(?i:", "(?s)", "(?m)", "(?U)", "(?-s)", "(?im-s:", "(?i-i)", "(?", "(?P", "(a*)*", "(a{0,2}){2}"),
    *("(?P<n>", "(?<n>", "(?P<m>", "(?P<é>", "(?<日>", "(?P<n", "(?<>", "(?P=n)", "(?=a)", "(?!a)", "(?<=a)", "(?#c)", "(?>a)"),
    *(
        "*",
        "+",
        "?",
        "*?",
        "+?",
        "??",
        "**",
        "^*",
        "$+",
        "{2}",
        "{1,2}",
        "{,2}",
        "{2,}",
        "{0}",
        "{1001}",
        "{2,1}",
        "{a}",
        "{0,1001}",
        "a{1000}",
    ),
    *("[", "[^", "[]a]", "[^]a]", "[a-]", "[-a]", "[]", "[^]", "[a-\\d]", "[\\d-z]", "[--a]", "[a&&b]", "[\\b]", "[\\C]", "[\\Qa\\E]"),
    *("[:alpha:]", "[[:alpha:]]", "[[:^digit:]]", "[[:word:]a]", "[[:foo:]]", "[:^x:]"),
    *(f"\\{letter}" for letter in "aAbBCdDEfGhknKnQrRsStvwWxXzZ018.-_é"),
    *("\\x41", "\\x{41}", "\\x{110000}", "\\x4", "\\101", "\\08", "\\Qa\\E", "\\Qa*", "\\Q\\C\\p{x}\\E"),
    *("\\p", "\\pL", "\\PL", "\\pl", "\\p{L}", "\\P{L}", "\\p{^L}", "\\p{Lu}", "\\p{lu}", "\\p{Greek}", "\\p{greek}", "\\p{Letter}"),
    *("\\p{Cased Letter}", "\\p{LC}", "\\P{LC}", "\\p{Cn}", "\\p{Assigned}", "\\P{Any}", "\\p{ascii}", "\\p{digit}", "\\p{Old_Italic}"),
    *("\\p{SignWriting}", "\\p{Han", "\\p{}", "\\p{^}", "\\p{]}", "[\\p{LC}]", "[a\\P{LC}]", "[^\\p{Cn}]", "[\\p{ASCII}é]", "[\\P{Any}]"),
)
_TEXTS = ("", "a", "ab", "aAb", "a\nb", "é", "K", "ſ", "0_ ", "日本", "aaaa", "]-\\", "ǅß", "͸")
_CALLS = ("{text}.find({pattern})", "{text}.findAll({pattern})", "{text}.matches({pattern})", "[{text}].map(t, t.find({pattern} + ''))")


def pattern_question(random: Random) -> Question:
    """A question of the language: a function of regular expressions on some text."""
    pattern = "".join(random.choices(_PIECES, k=random.randint(1, 5)))
    text, quoted = json.dumps(random.choice(_TEXTS)), json.dumps(pattern)
    return {"expression": random.choice(_CALLS).format(text=text, pattern=quoted), "mode": "language"}
