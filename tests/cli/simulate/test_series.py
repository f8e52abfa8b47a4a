"""What plots show: lines on common points, and where policies begin to differ."""

from __future__ import annotations

from virt_dra.cli.simulate.series import PlottedLine, points, resampled


def test_a_line_has_no_value_before_it_begins_and_after_it_has_ended() -> None:
    mean, low, high = [1.0, 3.0, 5.0], [0.0, 2.0, 4.0], [2.0, 4.0, 6.0]
    line = PlottedLine("pack", [1.0, 2.0, 4.0], mean, low, high)
    assert resampled(line, [0.0, 1.0, 1.5, 3.0, 4.0, 4.5]) == (
        [None, 1.0, 2.0, 4.0, 5.0, None],
        [None, 0.0, 1.0, 3.0, 4.0, None],
        [None, 2.0, 3.0, 5.0, 6.0, None],
    )
    assert sorted(line.since(2.0)) == [2.0, 3.0, 4.0, 4.0, 6.0]


def test_points_are_evenly_spread_from_end_to_end() -> None:
    spread = points(10.0, 209.0)
    assert (len(spread), spread[0], spread[1], spread[-1]) == (200, 10.0, 11.0, 209.0)
