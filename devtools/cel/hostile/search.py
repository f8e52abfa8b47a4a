"""A search for the worst expressions that the API server accepts: hill climbing over a population of trees, one
objective at a time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from devtools.cel.hostile.grammar import LISTS, OVERLOADS, Maker, Tree, leaf, substituted, template
from devtools.cel.hostile.measure import Times, measured
from virt_dra.cel.functions.registry import Overload
from virt_dra.cel.types import BOOL, DYN, INT, STRING, TypeKind

Objective = Callable[[Times], float]
OBJECTIVES: dict[str, Objective] = {
    "compiling": lambda times: times.compiling + times.estimating,
    "watched": lambda times: times.watched,
    "stretch": lambda times: times.stretch,
    "ratio": lambda times: times.ratio * min(times.watched / 0.003, 1.0),
    "free": lambda times: times.free,
}
"""By name; the ratio of what takes less than 3 ms is of no interest."""
POPULATION = 40
_MOST_TREES = 400


@dataclass(frozen=True, slots=True)
class Find:
    """An expression and what it takes."""

    objective: str
    score: float
    expression: str
    times: Times


def search(objective: str, seed: int, seconds: float, seeds: list[str]) -> list[Find]:
    """The best finds of so many seconds, best first. What is tried follows from the seed, how much of it from the
    machine."""
    rng = random.Random(f"{seed} {objective}")
    maker = Maker(rng)
    score = OBJECTIVES[objective]
    end = time.monotonic() + seconds
    population: list[tuple[float, Tree, Find]] = []
    tried: set[str] = set()
    for tree in _candidates(maker, rng, population, seeds):
        if time.monotonic() > end:
            break
        text = tree.text()
        if text in tried:
            continue
        tried.add(text)
        times = measured(text, free=objective == "free")
        if times is None:
            continue
        value = score(times)
        if len(population) < POPULATION or value > population[-1][0]:
            population.append((value, tree, Find(objective, value, text, times)))
            population.sort(key=lambda entry: -entry[0])
            del population[POPULATION:]
    return [find for _, _, find in population]


def _candidates(
    maker: Maker, rng: random.Random, population: list[tuple[float, Tree, Find]], seeds: list[str]
) -> Iterator[Tree]:
    for text in seeds:
        yield leaf(BOOL, text)
    for overload in rng.sample(OVERLOADS, len(OVERLOADS)):
        yield _called_often(maker, rng, overload)
    while True:
        if len(population) < POPULATION // 2 or rng.random() < 0.25:
            yield maker.make(BOOL, rng.choice((2, 3, 4, 5)))
            continue
        tree = population[int(len(population) * rng.random() ** 2)][1]
        for _ in range(rng.choice((1, 1, 2, 4))):
            tree = _changed(maker, rng, tree, population)
        yield tree


def _called_often(maker: Maker, rng: random.Random, overload: Overload) -> Tree:
    """A function on large arguments, and that again and again."""
    arguments: list[Tree] = []
    for param in overload.params:
        kind = substituted(param, {})
        argument = maker.make(kind, 1)
        if kind in (STRING, *LISTS):
            name = maker.name()
            grown = leaf(kind, name)
            for _ in range(12):
                grown = Tree(kind, f"cel.bind({name},{{}},{{}})", (leaf(kind, f"{name}+{name}"), grown))
            argument = Tree(kind, f"cel.bind({name},{{}},{{}})", (argument, grown))
        arguments.append(argument)
    called = Tree(DYN, template(overload), tuple(arguments))
    name = maker.name()
    return Tree(BOOL, f"lists.range({rng.choice((1, 10, 100))}).all({name},dyn({{}})!={name})", (called,))


def _changed(maker: Maker, rng: random.Random, tree: Tree, population: list[tuple[float, Tree, Find]]) -> Tree:
    """A neighbour: a part made anew, taken from another, repeated, put into a loop, or grown."""
    places = list(tree.places())[:_MOST_TREES]
    path, part = rng.choice(places)
    match rng.randrange(6):
        case 0:
            return tree.replaced(path, maker.make(part.type, rng.choice((1, 2, 3))))
        case 1:
            other = rng.choice(population)[1]
            fitting = [place for _, place in other.places() if place.type is part.type]
            return tree.replaced(path, rng.choice(fitting)) if fitting else tree
        case 2 if part.type is BOOL:
            sign = rng.choice(("&&", "||", "=="))
            times = rng.choice((2, 5, 30))
            return tree.replaced(path, Tree(BOOL, "(" + sign.join(["{0}"] * times) + ")", (part,)))
        case 3 if part.type is BOOL:
            macro = rng.choice(("all", "exists", "exists_one"))
            return tree.replaced(path, Tree(BOOL, f"{{}}.{macro}({maker.name()},{{}})", (maker.range(1), part)))
        case 4 if part.type in (STRING, *LISTS):
            name = maker.name()
            step = leaf(part.type, f"{name}+{name}")
            grown = leaf(part.type, name)
            for _ in range(rng.choice((2, 8, 12, 15))):
                grown = Tree(part.type, f"cel.bind({name},{{}},{{}})", (step, grown))
            return tree.replaced(path, Tree(part.type, f"cel.bind({name},{{}},{{}})", (part, grown)))
        case 5 if part.type is INT and not part.parts:
            return tree.replaced(path, leaf(INT, str(rng.choice((1, 30, 250, 900, 4000, 30000, 90000)))))
    if part.type.kind is TypeKind.LIST and part.parts:
        return tree.replaced(
            path, Tree(part.type, "[" + ",".join(["{0}"] * rng.choice((50, 400))) + "]", part.parts[:1])
        )
    return tree
