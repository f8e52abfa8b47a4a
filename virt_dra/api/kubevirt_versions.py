"""KubeVirt versions and feature gates, with each version's defaults (K-1.11).

A gate that GA'd is on whatever the configuration says; Beta means on by default since 1.9 and opt-in before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from virt_dra.api.go_text import quoted

if TYPE_CHECKING:
    from virt_dra.api.kubevirt_v1 import DeveloperConfiguration

GPUS_WITH_DRA = "GPUsWithDRA"
HOST_DEVICES_WITH_DRA = "HostDevicesWithDRA"
NETWORK_DEVICES_WITH_DRA = "NetworkDevicesWithDRA"
HOST_DEVICES = "HostDevices"
SIDECAR = "Sidecar"
PCI_NUMA_AWARE_TOPOLOGY = "PCINUMAAwareTopology"
RESERVED_OVERHEAD_MEMLOCK = "ReservedOverheadMemlock"
VGPU_LIVE_MIGRATION = "VGPULiveMigration"
PLUGINS = "Plugins"
IOMMUFD = "IOMMUFD"
MULTI_ARCHITECTURE = "MultiArchitecture"
GRACE_IO_VIRTUALIZATION = "GraceIOVirtualization"

DESIGN_GATE = "DynamicResourceAllocation"
"""The design's single gate; it stands for both DRA device gates (K-1.7)."""


@dataclass(frozen=True, order=True)
class KubeVirtVersion:
    """A released KubeVirt. Compare with ``>=``; :data:`MAIN` is newer than every release.

    A build of a branch has its release's rules (``v1.9.0-rc.1-12-gabcdef``: those of 1.9.0). What only names a build (a
    date, a digest, ``devel``, Go's ``v0.0.0-20260801...``) is no version.
    """

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> KubeVirtVersion:
        """The version in a text: ``1.9``, ``v1.8.3``, ``1.9.0-rc.1`` or ``main``. Without a patch level the newest one
        is meant. Raises ValueError."""
        if text.strip() == "main":
            return MAIN
        match = re.fullmatch(r"v?(\d{1,3})\.(\d{1,4})(?:\.(\d{1,4}))?(?:[-+][0-9A-Za-z.+-]*)?", text.strip(), re.ASCII)
        numbers = tuple(int(number) if number else NEWEST_PATCH for number in match.groups()) if match else ()
        if len(numbers) != 3 or numbers == (0, 0, 0):
            raise ValueError(f"{text!r} is no KubeVirt version; write for example 1.9, 1.8.3 or main")
        return cls(*numbers)

    @classmethod
    def parse_known(cls, text: str) -> KubeVirtVersion:
        """The version in a text, as :meth:`parse`, if its rules are known. Raises ValueError for others, too."""
        version = cls.parse(text)
        if version > NEWEST and version != MAIN:
            raise ValueError(
                f"KubeVirt {text} is newer than the releases known here: {', '.join(KNOWN_RELEASES)} and main; "
                "main has the newest rules"
            )
        return version

    def __str__(self) -> str:
        if self == MAIN:
            return "main"
        return f"{self.major}.{self.minor}" if self.patch == NEWEST_PATCH else f"{self.major}.{self.minor}.{self.patch}"


NEWEST_PATCH = 10_000
MAIN = KubeVirtVersion(10_000, 0, 0)
NEWEST = KubeVirtVersion(1, 9, NEWEST_PATCH)
"""The version that is assumed where none is given."""

KNOWN_RELEASES = tuple(f"1.{minor}" for minor in range(6, NEWEST.minor + 1))
"""The releases whose rules are known; of older ones, that they know no devices from claims."""

V1_6_0, V1_8_0, V1_8_3, V1_9_0 = (KubeVirtVersion(1, minor, patch) for minor, patch in ((6, 0), (8, 0), (8, 3), (9, 0)))
BEFORE_DRA = KubeVirtVersion(0, 0, 0)
"""Gates that are older than every rule here: KubeVirt 1.5 and older have them too (K-2.31)."""


@dataclass(frozen=True)
class ObservedVersion:
    """The version in a KubeVirt object, and the release whose rules apply.

    ``text``: ``status.observedKubeVirtVersion``, None where there is none. ``assumed``: that it names no release, so
    that the newest is taken: KubeVirt writes its images' tag or digest there, which for builds of main is a date or a
    name (K-1.11a).
    """

    text: str | None
    version: KubeVirtVersion
    assumed: bool

    @classmethod
    def parse(cls, text: str | None) -> ObservedVersion:
        try:
            return cls(text, KubeVirtVersion.parse(text or ""), assumed=False)
        except ValueError:
            return cls(text, NEWEST, assumed=True)

    def __str__(self) -> str:
        """``KubeVirt 1.9.0``, and where that isn't what was read: whose rules are applied instead, and why."""
        if not self.assumed:
            text = (self.text or "").strip()
            exact = text.removeprefix("v") == str(self.version)
            return f"KubeVirt {self.version}" if exact else f"KubeVirt {text}, by the rules of {self.version}"
        read = f"is {quoted(self.text[:_SHOWN])}, which names no release" if self.text else "is empty"
        return (
            f"status.observedKubeVirtVersion {read}: the rules of {self.version}, "
            "the newest release known here, are applied"
        )

    @property
    def unreadable(self) -> bool:
        """True if there is a version, and it names no release."""
        return self.assumed and bool(self.text)

    @property
    def advice(self) -> str:
        """Advice on getting the right rules applied; empty where nothing is assumed."""
        return "name the release that it was built from: --kubevirt-version 1.8.3, for example" if self.assumed else ""


_SHOWN = 100
"""Characters of an unreadable version that a message repeats."""


@dataclass(frozen=True)
class _Gate:
    since: KubeVirtVersion
    beta: KubeVirtVersion | None = None


_GATES: Mapping[str, _Gate] = {
    GPUS_WITH_DRA: _Gate(V1_6_0, beta=V1_9_0),
    HOST_DEVICES_WITH_DRA: _Gate(V1_6_0, beta=V1_9_0),
    NETWORK_DEVICES_WITH_DRA: _Gate(V1_9_0),
    HOST_DEVICES: _Gate(BEFORE_DRA),
    SIDECAR: _Gate(BEFORE_DRA),
    MULTI_ARCHITECTURE: _Gate(BEFORE_DRA),
    PCI_NUMA_AWARE_TOPOLOGY: _Gate(V1_8_0),
    RESERVED_OVERHEAD_MEMLOCK: _Gate(V1_8_0),
    VGPU_LIVE_MIGRATION: _Gate(V1_9_0),
    PLUGINS: _Gate(V1_9_0),
    IOMMUFD: _Gate(V1_9_0),
    GRACE_IO_VIRTUALIZATION: _Gate(V1_9_0),
}
AMD64 = "amd64"
KNOWN_GATES: tuple[str, ...] = (*_GATES, DESIGN_GATE)


@dataclass(frozen=True)
class Gates:
    """The gates that are on, for one KubeVirt version.

    ``disabled``: those that the KubeVirt object lists in ``disabledFeatureGates``, for advice only. ``architecture``:
    that of the control plane, without which MultiArchitecture can't be judged; None: not known (K-2.47).
    """

    version: KubeVirtVersion
    on: frozenset[str]
    disabled: frozenset[str] = frozenset()
    architecture: str | None = AMD64

    def __contains__(self, gate: str) -> bool:
        return gate in self.on

    @classmethod
    def for_version(cls, version: KubeVirtVersion, choices: Mapping[str, bool] | None = None) -> Gates:
        """The version's defaults, changed by explicit choices. A gate that this version doesn't have stays off."""
        on = {gate for gate, stage in _GATES.items() if stage.beta is not None and version >= stage.beta}
        for gate, enabled in _spelled_out(choices or {}).items():
            stages = _GATES.get(gate)
            if stages is None or version < stages.since:
                continue
            (on.add if enabled else on.discard)(gate)
        return cls(version, frozenset(on))

    @classmethod
    def configured(
        cls, version: KubeVirtVersion, configuration: DeveloperConfiguration, choices: Mapping[str, bool] | None = None
    ) -> Gates:
        """The gates of a KubeVirt object: ``featureGates``, then (1.8+) ``disabledFeatureGates``; listed in both means
        on (K-1.11)."""
        disabled = frozenset(configuration.disabled_feature_gates) if version >= V1_8_0 else frozenset()
        listed = dict.fromkeys(disabled, False) | dict.fromkeys(configuration.feature_gates, True)
        return replace(cls.for_version(version, listed | dict(choices or {})), disabled=disabled)

    def how_to_enable(self, gate: str) -> str:
        """How to enable a gate in the KubeVirt object, as a clause. A gate in both lists is refused there (K-1.11)."""
        stages = _GATES.get(gate)
        default = stages is not None and stages.beta is not None and self.version >= stages.beta
        if default:
            verb = "take" if gate in self.disabled else "keep"
            return f"{verb} {gate} out of {_LISTS}.disabledFeatureGates; it is on by default"
        if gate in self.disabled:
            return f"move {gate} from {_LISTS}.disabledFeatureGates to featureGates beside it; in both it is refused"
        return f"add {gate} to {_LISTS}.featureGates"


_LISTS = "spec.configuration.developerConfiguration"


def listed_twice(configuration: DeveloperConfiguration) -> tuple[str, ...]:
    """Gates in both lists of a KubeVirt object: on, but its updates are refused while they are (K-1.11)."""
    disabled = frozenset(configuration.disabled_feature_gates)
    return tuple(dict.fromkeys(gate for gate in configuration.feature_gates if gate in disabled))


def _spelled_out(choices: Mapping[str, bool]) -> dict[str, bool]:
    """The design's single gate written as the two that replaced it; explicit choices of those win."""
    if DESIGN_GATE not in choices:
        return dict(choices)
    both = dict.fromkeys((GPUS_WITH_DRA, HOST_DEVICES_WITH_DRA), choices[DESIGN_GATE])
    return both | {gate: value for gate, value in choices.items() if gate != DESIGN_GATE}
