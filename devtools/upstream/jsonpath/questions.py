"""Templates to ask about: chosen ones, and random ones made of parts that mean something to the documents."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

CHOSEN: Final = (
    ("list", "{.items[*].metadata.name}"),
    ("list", '{range .items[*]}{.metadata.name}{"\\t"}{.kind}{"\\n"}{end}'),
    ("list", "{range .items[*]}{range .devices[*]}{.name}, {end}{.count};{end}{.kind}"),
    ("list", "{range .items[*]}{.kind}"),
    ("list", "{range .items[*]}{@}{end}"),
    ("list", "{range .none[*]}{.a}{range .b[*]}{.c}{end}{end}after"),
    ("list", "{range .none[*]}{hello}{end}"),
    ("list", "{range .none[*]}{[0]}{end}"),
    ("list", '{.items[?(@.kind=="VM")].metadata.name}'),
    ("list", "{.items[?(@.kind=='VM')].devices[?(@.size>8)].name}"),
    ("list", "{.items[?(@.count>=2)].count}"),
    ("list", "{.items[?(@.ready)].kind}"),
    ("list", "{.items[?(@.ready==true)].kind}"),
    ("list", "{.items[?(@.share<1)].kind}"),
    ("list", "{.items[0]['metadata.name','kind']}"),
    ("list", "{.items[0].metadata.labels.k8s\\.io/zone}"),
    ("list", "{.items[0].metadata.labels['k8s\\.io/zone']}"),
    ("list", "{.items[0].metadata.labels}"),
    ("list", "{..name}"),
    ("list", "{..devices[*].size}"),
    ("list", "{.items[-1]}"),
    ("list", "{.items[-2:].count}"),
    ("list", "{.items[0:3:2].kind}"),
    ("list", "{.items[7]}"),
    ("list", "{.items[*].share}"),
    ("list", "{.items[2].big}"),
    ("object", "{.numbers[3:1]}"),
    ("object", "{.numbers[0:2:0]}"),
    ("object", "{.numbers[1,3,-1]}"),
    ("object", "{.numbers[?(@>2)]}"),
    ("object", "{.mixed}"),
    ("object", "{.mixed[*]}"),
    ("object", "{.floats}"),
    ("object", "{.floats[*]}"),
    ("object", "{.metadata.name.*}"),
    ("object", "{.metadata['a.b']}"),
    ("object", "{.metadata.a\\.b}"),
    ("object", "{.umlaut}"),
    ("object", "{.nested}"),
    ("object", "{.nested[*][0]}"),
    ("object", "{.empty}"),
    ("object", "{.}"),
    ("object", "{}"),
    ("object", "{@}"),
    ("object", "{$..numbers}"),
    ("object", "{..*}"),
    ("object", "{.......a}"),
    ("object", "{hello}"),
    ("object", "{end}"),
    ("object", "{range}"),
    ("object", "{.numbers[?(@<>1)]}"),
    ("object", "{.numbers[?(@==1.0)]}"),
    ("object", "{.numbers[?(@"),
    ("object", "{.numbers[?(@==1)"),
    ("object", "{.numbers["),
    ("object", "{.numbers[a]}"),
    ("object", "{.numbers[-]}"),
    ("object", "{.numbers[]}"),
    ("object", "{.numbers[99999999999999999999]}"),
    ("object", '{.numbers["a"]}'),
    ("object", "{.numbers"),
    ("object", "{*}"),
    ("object", "{\t}"),
    ("object", '{"a'),
    ("object", "{'a\\'b'}{\"\\x41\\u00e4\\101\"}"),
    ("object", '{"\\q"}'),
    ("object", '{"\\\'"}'),
    ("object", "{1}{-2.5}{+3}{1.2.3}"),
    ("object", "{-}"),
    ("object", "{true}{false}"),
    ("object", "text } only"),
    ("object", ""),
    ("numbers", "{[?(@<3)]}"),
    ("numbers", "{range [*]}<{@}>{end}"),
    ("numbers", "{.a}"),
)
"""Document and template."""

COLUMNS: Final = (
    ("list", "{.items}"),
    ("list", "{.items[0].metadata.labels}"),
    ("list", "{.items[*].metadata.name}"),
    ("list", "{.no}"),
    ("list", "{.items[0].devices[1].address}"),
    ("list", "{.items[*].share}"),
    ("object", "{.mixed}"),
    ("object", "{.empty}"),
    ("object", "{.numbers[9]}"),
    ("object", "{.floats[*]}"),
    ("object", "{.mixed[?(@.a==1)]}"),
)

_NAMES: Final = {
    "list": ["items", "kind", "metadata", "name", "labels", "app", "devices", "size", "count", "share", "ready"],
    "object": ["metadata", "name", "numbers", "mixed", "nested", "floats", "empty", "umlaut", "a"],
    "numbers": ["a"],
}  # fmt: skip
_INDEXES: Final = (
    "*", "0", "1", "-1", "-2", "0:2", ":2", "1:", "::2", "-2:", "0,1", "0,-1", "'name'", "'metadata.name'", "", "5",
)  # fmt: skip
_OPERANDS: Final = ("1", "2", "-7", "0.5", "8", "true", "false", '"VM"', "'a'", "@.name", '"gpu-0"')
_OPERATORS: Final = ("==", "!=", "<", ">", "<=", ">=", "=", "<>")
_TEXTS: Final = ("", " ", ",", "a:", "\n", '{"\\t"}', "{'x'}", "}")


def random_questions(random: Random, count: int) -> Iterator[tuple[str, str]]:
    """Documents and templates."""
    for _ in range(count):
        document = random.choice(("list", "list", "object", "object", "numbers"))
        yield document, _template(random, _NAMES[document])


def _template(random: Random, names: list[str]) -> str:
    parts = [random.choice(_TEXTS)]
    opened = 0
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if random.random() < 0.25:
            opened += 1
            parts.append(f"{{range {_path(random, names)}}}")
        parts += (f"{{{_path(random, names)}}}", random.choice(_TEXTS))
    parts += ["{end}"] * (opened if random.random() < 0.9 else opened + random.choice((-1, 1)))
    text = "".join(parts) + random.choice(_TEXTS)
    if random.random() < 0.06:  # damaged
        place = random.randrange(len(text) + 1)
        text = text[:place] + random.choice(("", "[", "]", "{", "}", "\\", "'", '"', ".", "(")) + text[place + 1 :]
    return text


def _path(random: Random, names: list[str]) -> str:
    text = random.choice(("", "@", "$", "", ""))
    for _ in range(random.choice((1, 2, 2, 3, 4))):
        match random.randrange(10):
            case 0 | 1 | 2 | 3 | 4:
                text += f".{random.choice(names)}"
            case 5 | 6:
                text += f"[{random.choice(_INDEXES)}]"
            case 7:
                text += ".*"
            case 8:
                text += f"..{random.choice(names)}"
            case _:
                field = f"@.{random.choice(names)}" if random.random() < 0.8 else "@"
                text += (
                    f"[?({field}{random.choice(_OPERATORS)}{random.choice(_OPERANDS)})]"
                    if random.random() < 0.8
                    else f"[?({field})]"
                )
    return text
