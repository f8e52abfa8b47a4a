"""The text of an outcome: what is left out where nobody would read it all."""

from __future__ import annotations

from virt_dra.cli.run.tree import SHOWN_LINES, SHOWN_SUBJECTS, shown


def test_a_few_details_are_all_shown() -> None:
    details = [
        "node a: device in use",
        "  claim c, request r: 0 of 1 device at best",
        *(f"    d/a/{number}: x" for number in range(6)),
    ]
    assert shown(details) == details
    assert shown([]) == []


def test_of_many_nodes_and_devices_the_first_are_shown_and_the_others_counted() -> None:
    devices = [f"    d/{number}: DeviceInUse" for number in range(64)]
    details = [line for node in range(200) for line in (f"node {node}: device in use", *devices)]
    lines = shown(details)
    assert len(lines) == SHOWN_SUBJECTS * SHOWN_LINES + 1
    assert [line for line in lines if line.startswith("node")] == [
        f"node {node}: device in use" for node in range(SHOWN_SUBJECTS)
    ]
    assert (
        lines[-1] == f"and {len(details) - SHOWN_SUBJECTS * SHOWN_LINES:,} more lines; -o "
        "json has them all, virt-dra explain groups them"
    )
