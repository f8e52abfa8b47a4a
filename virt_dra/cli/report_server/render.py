"""What the rendering process makes of a cluster's objects: the page in its live form and the document."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from virt_dra.api.meta import TypedObject
from virt_dra.cli.report.live_page import LIVE
from virt_dra.cli.report.settings import ReportSettings
from virt_dra.cli.shared.output import json_text
from virt_dra.report_server.following import Rendered


def render(settings: ReportSettings, objects: Sequence[TypedObject], at: datetime) -> Rendered:
    """The page and the document. The version names both, so that what is equal has the same one."""
    # Here, since the serving process knows this function, too, and need not load what it uses.
    from virt_dra.cli.report.contents import contents_json
    from virt_dra.cli.report.making import contents_of
    from virt_dra.cli.report.page import framed, report_main
    from virt_dra.inventory.known_objects import KnownObjects

    contents = contents_of(KnownObjects(objects), settings, at, _unseen)
    main, document = report_main(contents), json_text(contents_json(contents), indent=2) + "\n"
    version = hashlib.sha256(f"{main}\0{document}".encode()).hexdigest()[:32]
    page = framed(main, f"Cluster, last change {at:%Y-%m-%d %H:%M:%S} UTC", LIVE, version)
    return Rendered(version, page.encode(), document.encode())


@contextmanager
def _unseen(doing: str) -> Iterator[Callable[[int, int], None]]:
    yield lambda done, total: None
