"""The remedies of advice.json are for reasons that exist."""

from __future__ import annotations

from pathlib import Path

from launcher import errors
from virt_dra.api.integration import attribute_keys
from virt_dra.controllers.devices import delivery, outcomes
from virt_dra.simulator.advice import remedies

PAGES = {page.stem for page in (Path(__file__).parents[2] / "docs" / "reasons").glob("*.md")}


def test_every_remedy_is_for_a_reason_that_exists() -> None:
    modules = outcomes, delivery, attribute_keys
    of_devices = {value for module in modules for value in vars(module).values() if type(value) is str}
    expected = {
        "everywhere": PAGES,
        "nodes": PAGES,
        "devices": PAGES,
        "resolution": of_devices,
        "launcher": {value for value in vars(errors).values() if type(value) is str},
    }
    unknown = {table: set(reasons) - expected[table] for table, reasons in remedies().items()}
    assert not any(unknown.values()), unknown
