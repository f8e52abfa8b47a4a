"""A search for the selector that holds up the webhook longest: mutates what took longest so far, of what an API server
accepts.

``python -m devtools.webhooks.search SECONDS [--seed S]`` (``make conformance``); a short one is a test. What counts is
what others feel: how long the review itself took, the probes meanwhile, and reviews of another tenant with selectors
that the server hasn't seen before.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from devtools.webhooks.attack import percentile, unseen, vmi_of
from devtools.webhooks.serving import Served, serving
from devtools.webhooks.slow_selectors import DRIVER, HOSTILE, NINE, TENS, cluster, with_templates
from virt_dra.cel.validation import COMPILED
from webhooks.lint import Preflight
from webhooks.server.callers import TELL, Callers

MAX_LENGTH = 10 * 1024
"""Of a selector, for the API server."""
POPULATION = 24
TOGETHER = 4
"""Attackers that ask at once, each from a namespace of its own."""

_ATOMS = (
    "true",
    "a == a",
    f'device.attributes["{DRIVER}"].model.matches("(a*)*b|m")',
    f'device.attributes["{DRIVER}"].model.findAll("[a-z0-9]").size() > 0',
    r"'a'.matches(r'\pL{9'+'10}')",
    "'%s %d %x'.format(['abc', 10, 255]).size() > 0",
    f"{TENS}.map(v, v * v).sum() > 0",
    f"{NINE}.sort() == {NINE}",
    f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("1Ki"))',
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.replace('a', 'bbbbbbbb').split('b').join('c').size() > 0",
    "semver('1.2.3').isLessThan(semver('1.2.4'))",
    "[[1,2,3],[4,5,6]] == [[1,2,3],[4,5,6]]",
    "{'a': [1,2,3], 'b': [4,5,6]} == {'b': [4,5,6], 'a': [1,2,3]}",
)


@dataclass(frozen=True)
class Tried:
    """A selector and the seconds that it cost."""

    text: str
    review: float
    probe: float
    other: float

    @property
    def harm(self) -> float:
        """By the goals: a second of a review counts as much as 0.1 s of a probe."""
        return max(self.review, 10 * self.probe, 5 * self.other)


def accepted(text: str) -> bool:
    """Whether the API server stores it."""
    assert COMPILED.check_selector is not None
    return len(text.encode()) <= MAX_LENGTH and COMPILED.check_selector(text) is None


def mutated(rng: random.Random, texts: list[str]) -> str:
    """Another selector, made of one or two that there are."""
    text = rng.choice(texts) if texts else rng.choice(_ATOMS)
    name = f"v{rng.randrange(10**6)}"
    wrappers: tuple[Callable[[], str], ...] = (
        lambda: f"{NINE[: rng.randrange(1, 5) * 4].rstrip(',')}].all({name}, {text})".replace("]]", "]"),
        lambda: f"[1,2,3].exists({name}, !({text})) || true",
        lambda: f"{TENS}.all({name}, ({text}) || {name} > 0)",
        lambda: f"({text}) && ({rng.choice(_ATOMS)})",
        lambda: f"({rng.choice(_ATOMS)}) || ({text})",
        lambda: " && ".join([f"({text})"] * rng.randrange(2, 6)),
        lambda: (
            " || ".join(rf"'a'.matches(r'\pL{{{rng.randrange(100, 999)}}}{n}')" for n in range(rng.randrange(2, 60)))
            + f" || ({text})"
        ),
        lambda: f"cel.bind(l, [{', '.join(['1'] * rng.randrange(2, 40))}], cel.bind(m, l + l, m == m)) && ({text})",
        lambda: f"'{'a' * rng.randrange(1, 3000)}'.findAll('a').size() >= 0 && ({text})",
        lambda: f"({text}) ? ({rng.choice(_ATOMS)}) : ({rng.choice(texts or list(_ATOMS))})",
        lambda: text.replace("9", str(rng.randrange(10, 1000)), 1),
        lambda: rng.choice(_ATOMS),
    )
    return rng.choice(wrappers)()


def generations(rng: random.Random, best: list[Tried]) -> Iterator[str]:
    """Selectors that are accepted, for ever."""
    while True:
        text = mutated(rng, [selector.text for selector in best])
        if accepted(text):
            yield text


@dataclass
class ChangingCluster:
    """What the server knows at a time."""

    preflight: Preflight


async def tried(served: Served, changing: ChangingCluster, texts: list[str], number: int) -> list[Tried]:
    """Ask about several at once, with probes and another tenant's reviews meanwhile."""
    more = [(f"a{number}-{n}", f"h{number}-{n}", text) for n, text in enumerate(texts)]
    more += [(f"b{number}-{n}", f"o{number}-{n}", unseen(number * 100 + n)) for n in range(3)]
    before = changing.preflight
    changing.preflight = with_templates(before, more)
    probes: list[float] = []
    others: list[float] = []

    async def asked(name: str, namespace: str) -> float:
        began = time.perf_counter()
        code, answer = await served.ask(vmi_of(name, namespace))
        assert (code, answer["response"]["allowed"]) == (200, True), answer
        return time.perf_counter() - began

    async def probe(until: asyncio.Event) -> None:
        while not until.is_set():
            began = time.perf_counter()
            await served.plain("/healthz")
            probes.append(time.perf_counter() - began)
            await asyncio.sleep(0.01)

    async def other() -> None:
        for n in range(3):
            others.append(await asked(f"o{number}-{n}", f"b{number}-{n}"))
            await asyncio.sleep(0.05)

    done = asyncio.Event()
    probing = asyncio.create_task(probe(done))
    reviewing = asyncio.gather(*(asked(f"h{number}-{n}", f"a{number}-{n}") for n in range(len(texts))))
    await other()
    reviews = await reviewing
    done.set()
    await probing
    changing.preflight = before
    return [
        Tried(text, took, percentile(probes, 90), percentile(others, 50))
        for text, took in zip(texts, reviews, strict=True)
    ]


async def search(folder: Path, seconds: float, seed: int) -> list[Tried]:
    """The worst that were found, the worst first."""
    rng = random.Random(seed)
    changing = ChangingCluster(cluster({}, slices=20))
    best = [Tried(text, 0, 0, 0) for text in HOSTILE.values() if accepted(text)]
    until = time.monotonic() + seconds
    number = 0
    async with serving(folder, lambda: changing.preflight, callers=Callers(TELL)) as served:
        await tried(served, changing, ["true"] * TOGETHER, 10**6)
        while time.monotonic() < until:
            number += 1
            candidates = generations(rng, best)
            texts = [selector.text for selector in best if not selector.review][:TOGETHER]
            texts += [next(candidates) for _ in range(TOGETHER - len(texts))]
            generation = await tried(served, changing, texts, number)
            best = sorted(
                {selector.text: selector for selector in (*best, *generation)}.values(),
                key=lambda selector: (selector.review == 0, selector.harm),
                reverse=True,
            )
            best = best[:POPULATION]
    return sorted((selector for selector in best if selector.review), key=lambda selector: selector.harm, reverse=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        worst = asyncio.run(search(Path(folder), options.seconds, options.seed))
    for selector in worst[:5]:
        sys.stdout.write(
            f"review {selector.review:.3f} s, probe {selector.probe:.3f} s, "
            f"others {selector.other:.3f} s: {selector.text[:200]}\n"
        )
    bad = [selector for selector in worst if selector.review > 1 or selector.probe > 0.1]
    sys.stdout.write(f"seed {options.seed}: {len(bad)} selectors beyond the goals (review 1 s, probe 0.1 s)\n")
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
