"""Features of libvirt: what a domain uses, and the refusal where a release hasn't it."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher import LauncherError, convert
from launcher.conversion import AddressSources
from launcher.features import FEATURES, check_supported
from tests.launcher.scenarios import cases, converted, vmi_of
from virt_dra.api.wire import Json

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "hostdev-options.md"
CASES = cases("hostdev_options", "iommufd", "claimed_devices", "plugin_devices", "sriov")
GOOD = {name: case for name, case in CASES.items() if "error" not in case}


def test_every_feature_is_used_by_a_case_that_is_converted() -> None:
    domains = [converted(case).domain for case in GOOD.values()]
    unused = {feature.name for feature in FEATURES if not any(feature.used(domain) for domain in domains)}
    assert unused == {"PCIe expander"}  # its cases are those of the placement


def test_iommufd_is_an_attribute_of_the_device() -> None:
    """K-7.25: where it is asked for, in place of KubeVirt's Grace mode."""
    (case,) = cases("iommufd").values()
    assert [device.xml for device in converted(case).hostdevs] == [device["xml"] for device in case["want"]]


@pytest.mark.parametrize(
    ("name", "release", "message"),
    [
        ("iommufd: a device by iommufd", "12.1.9", "libvirt 12.1.9 lacks iommufd (12.2.0 and newer)"),
        (
            "claimed_devices: the status gives an mdev, spelled as the design does, and its parent; the mdev counts",
            "3.1",
            "libvirt 3.1 lacks mdev, model vfio-pci (3.2.0 and newer), display of an mdev (4.6.0 and newer), "
            "ramfb of an mdev (5.10.0 and newer)",
        ),
        ("hostdev_options: a channel device of s390x", "9", "'9' is no release of libvirt; write for example 9.0.0"),
    ],
)
def test_a_domain_that_a_release_cannot_run_is_refused_with_every_feature(
    name: str, release: str, message: str
) -> None:
    with pytest.raises(LauncherError) as refusal:
        check_supported(converted(CASES[name]).domain, release)
    assert str(refusal.value) == message


@pytest.mark.parametrize("case", GOOD.values(), ids=GOOD.keys())
def test_the_newest_libvirt_runs_every_domain(case: Json) -> None:
    check_supported(converted(case).domain, "12.2.0")


def test_the_library_judges_when_a_release_is_given() -> None:
    (case,) = cases("iommufd").values()
    with pytest.raises(LauncherError, match=r"^libvirt 9\.0\.0 lacks iommufd"):
        convert(vmi_of(case), AddressSources(case["env"]), libvirt="9.0.0")
    assert convert(vmi_of(case), AddressSources(case["env"]), libvirt="12.2").domain.hostdevs[0].iommufd == "yes"


def test_the_guide_has_the_table() -> None:
    rows = [f"| {feature.name} | {feature.release} | {feature.tested} |" for feature in FEATURES]
    table = "\n".join(("| feature | libvirt | tested with libvirt 9.0 by |", "|---|---|---|", *rows)) + "\n"
    assert table in GUIDE.read_text()
