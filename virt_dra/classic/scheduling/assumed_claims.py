"""The scheduler's own writes to claims that its informer hasn't shown yet."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.classic.objects import ClassicClaim
from virt_dra.cluster.watching.informer import Informer


class AssumedClaims:
    """Claims as the informer shows them (call :meth:`seen` for each change), or as the scheduler wrote them since."""

    def __init__(self, claims: Informer[ClassicClaim]) -> None:
        self._stored = claims.store
        self._written: dict[tuple[str, str], ClassicClaim] = {}

    def get(self, namespace: str, name: str) -> ClassicClaim | None:
        return self._written.get((namespace, name)) or self._stored.get(name, namespace)

    def wrote(self, claim: ClassicClaim) -> None:
        """Record a claim as a successful write returned it."""
        stored = self._stored.get(claim.name, claim.namespace)
        if stored is None or _is_newer(claim, stored):
            self._written[claim.namespace, claim.name] = claim

    def seen(self, claim: ClassicClaim, *, gone: bool) -> None:
        """Forget a written claim that the informer shows by now, or that is ``gone``."""
        key = (claim.namespace, claim.name)
        written = self._written.get(key)
        if written is not None and (gone or not _is_newer(written, claim)):
            del self._written[key]

    def newer(self) -> Iterator[ClassicClaim]:
        """The written claims that the informer doesn't show yet."""
        yield from self._written.values()


def _is_newer(left: ClassicClaim, right: ClassicClaim) -> bool:
    """True if ``left`` has the higher resourceVersion; False, in favour of the informer, if one isn't a number."""
    mine, theirs = left.metadata.resource_version, right.metadata.resource_version
    same = left.metadata.uid == right.metadata.uid
    return same and mine.isdigit() and theirs.isdigit() and int(mine) > int(theirs)
