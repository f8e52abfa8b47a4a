"""What a kubelet makes of drivers' health reports (C-16.10)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from virt_dra.api.core_v1 import Container
from virt_dra.api.wire import Json
from virt_dra.simulator.agents.claim_manager import PreparedDevice
from virt_dra.simulator.agents.device_health import (
    MOST_DEVICES,
    HealthReports,
    ReportedHealth,
    allocated_resources_status,
    shortened,
)
from virt_dra.simulator.virtual_time import BEGINNING

DRIVER = "gpu.example.com"
GOOD, BAD = ReportedHealth("n1", "d0", "Healthy"), ReportedHealth("n1", "d0", "Unhealthy", "too hot")


def later(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def test_the_last_report_counts_and_says_what_changed() -> None:
    """C-16.10: state, message and timeout; a repetition changes nothing."""
    health = HealthReports()
    assert health.report(DRIVER, [GOOD], BEGINNING) == (("n1", "d0"),)
    assert health.report(DRIVER, [GOOD], BEGINNING + later(5)) == ()
    assert health.report(DRIVER, [BAD], BEGINNING + later(6)) == (("n1", "d0"),)
    assert health.of(DRIVER, "n1", "d0", BEGINNING + later(7)) == ("Unhealthy", "too hot")
    assert health.of(DRIVER, "n1", "d1", BEGINNING) == ("Unknown", "")
    assert health.of("nic.example.com", "n1", "d0", BEGINNING) == ("Unknown", "")


@pytest.mark.parametrize(("timeout", "seconds"), [(0, 30), (-1, 30), (60, 60), (5, 5)])
def test_without_a_report_health_becomes_unknown(timeout: float, seconds: float) -> None:
    """C-16.10: 30 s unless the driver says another time; the message goes too."""
    health = HealthReports()
    health.report(DRIVER, [ReportedHealth("n1", "d0", "Unhealthy", "too hot", later(timeout))], BEGINNING)
    assert health.of(DRIVER, "n1", "d0", BEGINNING + later(seconds)) == ("Unhealthy", "too hot")
    assert health.of(DRIVER, "n1", "d0", BEGINNING + later(seconds + 1)) == ("Unknown", "")


def test_a_device_that_reports_leave_out_is_forgotten_when_it_is_stale() -> None:
    """C-16.10: that is a change once, and none for one that was unknown."""
    health = HealthReports()
    health.report(DRIVER, [BAD, ReportedHealth("n1", "d1", "Unknown")], BEGINNING)
    assert health.report(DRIVER, [], BEGINNING + later(30)) == ()
    assert health.report(DRIVER, [], BEGINNING + later(31)) == (("n1", "d0"),)
    assert health.report(DRIVER, [], BEGINNING + later(62)) == ()


def test_the_end_of_a_stream_clears_what_the_driver_said() -> None:
    """C-16.10."""
    health = HealthReports()
    health.report(DRIVER, [BAD], BEGINNING)
    health.report("nic.example.com", [GOOD], BEGINNING)
    health.stream_ended(DRIVER)
    assert health.of(DRIVER, "n1", "d0", BEGINNING) == ("Unknown", "")
    assert health.of("nic.example.com", "n1", "d0", BEGINNING) == ("Healthy", "")


def test_a_driver_cant_fill_the_memory() -> None:
    """C-2.7: known devices are updated beyond the limit, new ones ignored; messages are cut."""
    health = HealthReports()
    many = [ReportedHealth("n1", f"d{number}", "Healthy") for number in range(MOST_DEVICES + 5)]
    assert len(health.report(DRIVER, many, BEGINNING)) == MOST_DEVICES
    assert health.report(DRIVER, [*many[1:], BAD], BEGINNING) == (("n1", "d0"),)
    assert shortened("x" * 1024) == "x" * 1024
    assert shortened("x" * 1025) == "x" * 1021 + "..."


def container(*claims: Json) -> Container:
    return Container.from_wire({"name": "compute", "resources": {"claims": list(claims)}})


def device(name: str, request: str, *cdi: str) -> PreparedDevice:
    return PreparedDevice(DRIVER, "n1", name, request, cdi_ids=cdi)


def test_a_container_has_an_entry_for_each_claim_or_request() -> None:
    """C-16.10: subrequests answer to their request's name; a device counts once for each entry."""
    health = HealthReports()
    health.report(DRIVER, [BAD, ReportedHealth("n1", "d1", "Healthy")], BEGINNING)
    devices = {
        "gpus": [
            device("d0", "big/first"),
            device("d1", "small", "example.com/gpu=1", "example.com/gpu=2"),
            device("d1", "small", "example.com/gpu=1"),
        ],
        "none": [],
    }
    status = allocated_resources_status(
        container({"name": "gpus"}, {"name": "gpus", "request": "big"}, {"name": "none"}, {"name": "absent"}),
        devices,
        health,
        BEGINNING,
    )
    hot = {"resourceID": "gpu.example.com/n1/d0", "health": "Unhealthy", "message": "too hot"}
    assert [resource.to_wire() for resource in status] == [
        {"name": "claim:gpus", "resources": [hot, {"resourceID": "example.com/gpu=1", "health": "Healthy"}]},
        {"name": "claim:gpus/big", "resources": [hot]},
    ]


def test_messages_have_a_gate_of_their_own() -> None:
    """C-2.1: ResourceHealthStatusMessage."""
    health = HealthReports()
    health.report(DRIVER, [BAD], BEGINNING)
    (status,) = allocated_resources_status(
        container({"name": "gpu"}), {"gpu": [device("d0", "r")]}, health, BEGINNING, messages=False
    )
    assert [resource.to_wire() for resource in status.resources] == [
        {"resourceID": "gpu.example.com/n1/d0", "health": "Unhealthy"}
    ]


def test_a_device_whose_driver_reports_nothing_is_unknown() -> None:
    """C-16.10."""
    (status,) = allocated_resources_status(
        container({"name": "gpu"}), {"gpu": [device("d0", "r")]}, HealthReports(), BEGINNING
    )
    assert [resource.to_wire() for resource in status.resources] == [
        {"resourceID": "gpu.example.com/n1/d0", "health": "Unknown"}
    ]
