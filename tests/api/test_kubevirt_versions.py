"""KubeVirt versions and what is on by default, or by configuration (K-1.11)."""

from __future__ import annotations

import pytest

from virt_dra.api.kubevirt_v1 import DeveloperConfiguration
from virt_dra.api.kubevirt_versions import KNOWN_GATES, NEWEST, Gates, KubeVirtVersion, ObservedVersion, listed_twice

BOTH = {"GPUsWithDRA", "HostDevicesWithDRA"}
SINCE = {
    **dict.fromkeys(("HostDevices", "Sidecar", "MultiArchitecture"), "0.36"),
    **dict.fromkeys(BOTH, "1.6.0"),
    **dict.fromkeys(("PCINUMAAwareTopology", "ReservedOverheadMemlock"), "1.8.0"),
    **dict.fromkeys(
        ("NetworkDevicesWithDRA", "VGPULiveMigration", "Plugins", "IOMMUFD", "GraceIOVirtualization"), "1.9.0"
    ),
}


def _version(text: str) -> KubeVirtVersion:
    return KubeVirtVersion.parse(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1.9", "1.9"),
        ("v1.8.3", "1.8.3"),
        (" 1.9.0-rc.1 ", "1.9.0"),
        ("v1.8.0+dirty", "1.8.0"),
        ("v1.9.0-rc.1-12-gabcdef", "1.9.0"),
        ("v0.59.0", "0.59.0"),
        ("0.0.1", "0.0.1"),
        ("main", "main"),
    ],
)
def test_a_version_is_read(text: str, shown: str) -> None:
    assert str(_version(text)) == shown


NO_RELEASE = [
    *("", "1", "1.9.", "1.x", "latest", "1.8.3.1", "-1.8", "١.٩", "99999.1", "devel"),
    *(
        "20260801_abcdef",
        "2026.08.01",
        "v0.0.0-20260801120000-abcdef123456",
        "v0.0.0",
        "0.0.0-dirty",
        "sha256:" + "0123abcd" * 8,
    ),
]
"""A date, a digest, a name of a build, Go's version of an untagged commit: what builds of main call themselves."""


@pytest.mark.parametrize("text", NO_RELEASE)
def test_what_is_no_version_is_refused_with_advice(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no KubeVirt version; write for example 1\.9, 1\.8\.3 or main$"):
        _version(text)


def test_versions_are_ordered_by_number_and_no_patch_level_means_the_newest() -> None:
    texts = ["0.59", "1.5", "1.6.0", "1.6", "1.8.0", "1.8.2", "1.8.3", "1.8", "1.9.0", "1.9", "1.10", "2.0", "main"]
    versions = [_version(text) for text in texts]
    assert versions == sorted(set(versions))


@pytest.mark.parametrize(
    ("version", "on"),
    [("1.5", set()), ("1.6", set()), ("1.7", set()), ("1.8.0", set()), ("1.8", set()), ("1.9.0", BOTH), ("main", BOTH)],
)
def test_beta_gates_are_on_since_1_9(version: str, on: set[str]) -> None:
    assert Gates.for_version(_version(version)).on == on


@pytest.mark.parametrize("version", ["1.5", "1.6", "1.7", "1.8.0", "1.8.3", "1.9", "main"])
def test_a_gate_can_be_switched_on_in_versions_that_have_it(version: str) -> None:
    everything = Gates.for_version(_version(version), {**dict.fromkeys(KNOWN_GATES, True), "Unknown": True})
    assert everything.on == {gate for gate, since in SINCE.items() if _version(since) <= _version(version)}
    assert Gates.for_version(_version(version), dict.fromkeys(KNOWN_GATES, False)).on == frozenset()


@pytest.mark.parametrize(
    ("choices", "on"),
    [
        ({"DynamicResourceAllocation": False}, set()),
        ({"DynamicResourceAllocation": False, "GPUsWithDRA": True}, {"GPUsWithDRA"}),
        ({"HostDevicesWithDRA": False, "DynamicResourceAllocation": True}, {"GPUsWithDRA"}),
        ({"HostDevices": True}, BOTH | {"HostDevices"}),
    ],
)
def test_the_designs_gate_stands_for_two_and_choices_change_the_default(choices: dict[str, bool], on: set[str]) -> None:
    assert Gates.for_version(_version("1.9"), choices).on == on


@pytest.mark.parametrize(
    ("version", "listed", "disabled", "on"),
    [
        ("1.9", [], ["GPUsWithDRA"], {"HostDevicesWithDRA"}),
        ("1.9", ["GPUsWithDRA", "HostDevices"], ["GPUsWithDRA"], BOTH | {"HostDevices"}),
        ("1.8", ["GPUsWithDRA"], ["HostDevicesWithDRA"], {"GPUsWithDRA"}),
        ("1.7", ["GPUsWithDRA"], ["GPUsWithDRA"], {"GPUsWithDRA"}),
        ("1.7", ["NetworkDevicesWithDRA", "LiveMigration"], [], set()),
    ],
)
def test_a_configuration_lists_and_disables_gates(
    version: str, listed: list[str], disabled: list[str], on: set[str]
) -> None:
    configuration = DeveloperConfiguration.from_wire({"featureGates": listed, "disabledFeatureGates": disabled})
    assert Gates.configured(_version(version), configuration).on == on


@pytest.mark.parametrize("text", [*NO_RELEASE, None])
def test_what_names_no_release_gets_the_newest_rules_and_says_so(text: str | None) -> None:
    observed = ObservedVersion.parse(text)
    assert (observed.version, observed.assumed, observed.unreadable) == (NEWEST, True, bool(text))
    assert str(observed).endswith("the rules of 1.9, the newest release known here, are applied")
    assert (text or "is empty")[:100] in str(observed)
    assert "--kubevirt-version 1.8.3" in observed.advice


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("v1.9.0", "KubeVirt 1.9.0"),
        ("1.8.3", "KubeVirt 1.8.3"),
        ("main", "KubeVirt main"),
        ("v1.9.0-rc.1-12-gabcdef", "KubeVirt v1.9.0-rc.1-12-gabcdef, by the rules of 1.9.0"),
        ("v1.10", "KubeVirt 1.10"),
    ],
)
def test_a_release_is_itself(text: str, sentence: str) -> None:
    observed = ObservedVersion.parse(text)
    assert (str(observed), observed.assumed, observed.advice) == (sentence, False, "")


LISTS = "spec.configuration.developerConfiguration"


@pytest.mark.parametrize(
    ("version", "disabled", "gate", "change"),
    [
        ("1.7", [], "GPUsWithDRA", f"add GPUsWithDRA to {LISTS}.featureGates"),
        ("1.7", ["GPUsWithDRA"], "GPUsWithDRA", f"add GPUsWithDRA to {LISTS}.featureGates"),  # 1.7 has no such list
        (
            "1.8",
            ["GPUsWithDRA"],
            "GPUsWithDRA",
            f"move GPUsWithDRA from {LISTS}.disabledFeatureGates to featureGates beside it; in both it is refused",
        ),
        (
            "1.9",
            ["GPUsWithDRA"],
            "GPUsWithDRA",
            f"take GPUsWithDRA out of {LISTS}.disabledFeatureGates; it is on by default",
        ),
        ("main", [], "GPUsWithDRA", f"keep GPUsWithDRA out of {LISTS}.disabledFeatureGates; it is on by default"),
        (
            "1.9",
            ["HostDevices"],
            "HostDevices",
            f"move HostDevices from {LISTS}.disabledFeatureGates to featureGates beside it; in both it is refused",
        ),
        ("1.9", ["GPUsWithDRA"], "HostDevices", f"add HostDevices to {LISTS}.featureGates"),
    ],
)
def test_how_to_enable_a_gate_depends_on_the_lists_that_it_is_in(
    version: str, disabled: list[str], gate: str, change: str
) -> None:
    configuration = DeveloperConfiguration.from_wire({"disabledFeatureGates": disabled})
    assert Gates.configured(_version(version), configuration).how_to_enable(gate) == change


def test_what_is_advised_turns_the_gate_on_and_leaves_it_in_one_list() -> None:
    for version in ("1.6", "1.7", "1.8", "1.9", "main"):
        for gate in SINCE:
            for disabled in ([], [gate]):
                before = DeveloperConfiguration.from_wire({"disabledFeatureGates": disabled})
                gates = Gates.configured(_version(version), before)
                if gate in gates or _version(version) < _version(SINCE[gate]):
                    continue
                words = gates.how_to_enable(gate).split()
                after = DeveloperConfiguration.from_wire(
                    {
                        "featureGates": [gate] if words[0] in ("add", "move") else [],
                        "disabledFeatureGates": [] if words[0] in ("take", "move") else disabled,
                    }
                )
                assert gate in Gates.configured(_version(version), after)
                assert _version(version) < _version("1.8.0") or not listed_twice(after)
