"""What holds of the domain of any VMI: libvirt's schema allows it, it is read back as what it was, and no text of the
VMI has become an element, or there is a typed error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from devtools.domains.random_vmis import RandomVmi, random_vmi
from launcher import LauncherError, convert
from launcher.elements.domain import Domain
from launcher.elements.page import Page
from launcher.schema import schema_faults
from virt_dra.api.wire import WireError

_REFUSED_LATER = "libvirt will refuse"
"""Begins a warning of an address that KubeVirt's syntax allows and libvirt's schema doesn't."""


@dataclass(frozen=True)
class Judgement:
    """``outcome``: ``domain``, or the reason of the error. ``fault``: what doesn't hold, "" for nothing."""

    outcome: str
    fault: str = ""


def judged(given: RandomVmi) -> Judgement:
    """Another exception than the launcher's is a fault, too."""
    try:
        made = convert(given.vmi, given.sources, kubevirt=given.kubevirt, topology=given.topology)
        xml = made.domain_xml
    except LauncherError as error:
        return Judgement(error.reason, "" if error.reason and error.subject and str(error) else "an empty error")
    except WireError:
        return Judgement("WireError")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
        return Judgement("exception", f"{type(error).__name__}: {error}")
    faults = schema_faults(xml)
    if faults and not any(_REFUSED_LATER in warning for warning in made.warnings):
        return Judgement("domain", f"libvirt's schema: {'; '.join(faults)}\n{xml}")
    if (read := Domain.from_text(xml)) != made.domain:
        return Judgement("domain", f"read back as another domain: {read}\nthan {made.domain}")
    if undeclared := _undeclared(read):
        return Judgement("domain", f"elements that nobody declared: {undeclared}\n{xml}")
    return Judgement("domain")


def _undeclared(page: Page) -> list[str]:
    """What the page and those in it have beyond their declared properties."""
    values = [getattr(page, declared.field) for declared in page.properties()]
    inside = [child for value in values if isinstance(value, tuple) for child in value]
    own = [page.kept.undeclared] if page.kept.undeclared else []
    return own + [text for child in inside for text in _undeclared(child)]


def outcomes(seeds: Iterable[int]) -> tuple[Counter[str], str]:
    """How often there was which outcome; and the first fault with its seed, "" for none."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        given = random_vmi(seed)
        judgement = judged(given)
        if judgement.fault:
            return counts, f"seed {seed}: {judgement.fault}\n{given}"
        counts[judgement.outcome] += 1
    return counts, ""
