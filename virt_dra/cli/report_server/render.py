"""What the rendering process makes of a cluster's objects: the page in its live form and the document."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from virt_dra.api.meta import TypedObject
from virt_dra.cli.report.page_forms import LIVE
from virt_dra.cli.report.settings import ReportSettings
from virt_dra.cli.shared.output import json_text
from virt_dra.report_server.following import Rendered

if TYPE_CHECKING:
    from virt_dra.simulator.explaining.waiting import WaitingAnswers


class LiveReport:
    """Implements :class:`virt_dra.report_server.following.Render`; remembers how what waits was explained last."""

    def __init__(self, settings: ReportSettings) -> None:
        self._settings = settings
        self._explained: WaitingAnswers | None = None
        self._at: datetime | None = None

    def __call__(self, objects: Sequence[TypedObject], at: datetime, *, explain: bool) -> Rendered:
        """The page and the document. The version names both, so that what is equal has the same one."""
        # Here, since the serving process knows this class, too, and need not load what it uses.
        from virt_dra.cli.report.contents import contents_json
        from virt_dra.cli.report.making import contents_of
        from virt_dra.cli.report.page import headline, report_frame, report_main
        from virt_dra.model.cluster import ClusterModel
        from virt_dra.simulator.explaining.waiting import WaitingAnswers

        before = None if explain else self._explained or WaitingAnswers(())
        contents = contents_of(ClusterModel(objects), self._settings, at, _unseen, before)
        if explain:
            self._explained, self._at = contents.waiting, at
        else:
            earlier = f"was explained at {self._at:%H:%M:%S} UTC; what is new follows" if self._at is not None else ""
            note = f"What waits {earlier or 'is being explained'}."
            contents = replace(contents, notes=(*contents.notes, note))
        main, document = report_main(contents), json_text(contents_json(contents), indent=2) + "\n"
        version = hashlib.sha256(f"{main}\0{document}".encode()).hexdigest()[:32]
        source = f"Cluster, last change {at:%Y-%m-%d %H:%M:%S} UTC"
        page = report_frame(main, headline(contents), source, LIVE, version)
        return Rendered(version, page.encode(), document.encode())


@contextmanager
def _unseen(doing: str) -> Iterator[Callable[[int, int], None]]:
    yield lambda done, total: None
