"""When the rendering process renders."""

from __future__ import annotations

from virt_dra.report_server.pace import Pace


def test_the_first_rendering_is_at_once_and_the_next_a_moment_after_a_change() -> None:
    pace = Pace()
    assert pace.due() == 0.0
    pace.begin(100.0)
    pace.end(100.5)
    assert pace.due() == 400.5  # without a change
    pace.change(200.0)
    pace.change(200.1)
    assert pace.due() == 200.2  # with those that come with it


def test_renderings_are_seconds_apart_however_much_changes() -> None:
    pace = Pace()
    pace.begin(100.0)
    pace.change(100.2)  # while it renders
    pace.end(100.5)
    assert pace.due() == 103.5


def test_what_takes_long_is_done_in_a_fifth_of_the_time() -> None:
    pace = Pace()
    pace.begin(100.0)
    pace.change(101.0)
    pace.end(110.0)
    assert pace.due() == 150.0
    pace.begin(150.0)
    pace.end(250.0)
    assert pace.due() == 650.0
