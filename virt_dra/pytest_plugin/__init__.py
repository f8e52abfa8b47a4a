"""The pytest plugin: fixtures for unit tests of VMs, ``assert_vm_ready``, ``domain_xml`` and ``assert_domain_xml``.

pytest imports this module in every run of an environment in which virt-dra is installed. So it imports nothing but
pytest and small parts of the standard library; what a fixture needs is imported when it is called. The work is in the
modules beside it, which don't know pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from launcher import AnyVmi, HostTopology
    from virt_dra.pytest_plugin.domain_assertions import DomainAssertions
    from virt_dra.simulator.outcome import VmOutcome

__all__ = ["DomainXmlAssertion", "DomainXmlMaker", "PathText", "UnusableInput", "VmReadyAssertion"]

PathText = str | Path
_NONE: Mapping[str, str] = MappingProxyType({})
_NO_GATES: Mapping[str, bool] = MappingProxyType({})
_WRITTEN = "virt_dra_golden"
"""The property of a test's report that names a golden file which the test wrote; reports reach the first process with
xdist, too."""


class UnusableInput(Exception):
    """Input of a test with which nothing can be asserted: a missing or malformed file, an unknown option. The text
    names it, and can be printed."""

    def __init__(self, *sentences: object) -> None:
        from virt_dra.cli.shared.console import visible_lines

        super().__init__(visible_lines("\n".join(map(str, sentences))))


@dataclass(frozen=True)
class VmReadyAssertion:
    """What the fixture ``assert_vm_ready`` gives: a callable. ``folder``: of the test's module, to which relative paths
    are relative."""

    folder: Path
    kubevirt: str | None

    def __call__(
        self,
        *vms: PathText,
        cluster: PathText | Sequence[PathText] = (),
        node: str | None = None,
        namespace: str = "default",
        kubevirt: str | None = None,
        gates: Mapping[str, bool] = _NO_GATES,
        ignore: Sequence[str] = (),
    ) -> tuple[VmOutcome, ...]:
        """Runs every VM and VMI of the files or folders ``vms`` on an embedded cluster, as ``virt-dra run`` does;
        returns their outcomes.

        ``cluster``: files or folders with the cluster's objects, for example a dump; VMs in it compete for devices, and
        needn't be ready. ``node``: the only one that may be chosen. ``namespace``: of objects that name none.
        ``kubevirt`` and ``gates`` override the cluster's KubeVirt object. ``ignore``: ids of findings of the lint.

        Raises AssertionError with the explanation where a VM isn't ready, :class:`UnusableInput` where input can't be
        read.
        """
        __tracebackhide__ = True
        from virt_dra.pytest_plugin.readiness import ReadinessInputs, ready_vms

        around = (cluster,) if isinstance(cluster, str | Path) else cluster
        inputs = ReadinessInputs(
            vms=tuple(_located(self.folder, path) for path in vms),
            cluster=tuple(_located(self.folder, path) for path in around),
            node=node,
            namespace=namespace,
            kubevirt=kubevirt if kubevirt is not None else self.kubevirt,
            gates=gates,
            ignore=tuple(ignore),
        )
        try:
            return ready_vms(inputs)
        except UnusableInput as error:
            raise error.with_traceback(None) from None  # the test's line matters, not where a file was read


@dataclass(frozen=True)
class DomainXmlMaker:
    """What the fixture ``domain_xml`` gives: a callable. ``folder``: of the test's module, to which relative paths are
    relative."""

    folder: Path
    kubevirt: str | None

    def __call__(
        self,
        vmi: PathText | AnyVmi,
        addresses: Mapping[str, str] = _NONE,
        *,
        device_status: Mapping[str, object] | None = None,
        env: Mapping[str, str] = _NONE,
        pod: Mapping[str, object] | None = None,
        files: Mapping[str, str] | None = None,
        topology: PathText | HostTopology | None = None,
        kubevirt: str | None = None,
    ) -> str:
        """The libvirt domain that the launcher makes of a VMI or VM, as indented XML.

        ``vmi``: an object, a dict, or a file that has one VMI or VM among its objects. ``addresses``: by ``gpus/NAME``
        or ``hostDevices/NAME``, the PCI address or mdev UUID of a device from a claim. ``device_status``:
        ``status.deviceStatus``, in place of the VMI's own. ``env``, ``pod``, ``files``: what else the launcher reads
        addresses from, see :class:`launcher.AddressSources`. ``topology``: the host on which devices and vCPUs are
        placed, as an object or a file (:mod:`launcher.placement.host_text`).

        What the launcher warns of is a warning. Raises :class:`launcher.LauncherError` where no domain can be made,
        :class:`UnusableInput` where the input can't be read.
        """
        __tracebackhide__ = True
        from virt_dra.pytest_plugin.domains import made_domain

        vmi = _located(self.folder, vmi) if isinstance(vmi, str | Path) else vmi
        topology = _located(self.folder, topology) if isinstance(topology, str | Path) else topology
        try:
            return made_domain(
                vmi,
                addresses,
                device_status=device_status,
                env=env,
                pod=pod,
                files=files,
                topology=topology,
                kubevirt=kubevirt if kubevirt is not None else self.kubevirt,
            )
        except UnusableInput as error:
            raise error.with_traceback(None) from None


@dataclass(frozen=True)
class DomainXmlAssertion:
    """What the fixture ``assert_domain_xml`` gives: a callable. ``on_written`` gets the path of each golden file that
    it wrote."""

    folder: Path
    update: bool
    on_written: Callable[[str], None]

    def __call__(self, xml: str | bytes, golden: PathText | None = None) -> DomainAssertions:
        """What the XML is asserted to have: ``assert_domain_xml(xml).has_hostdev(pci="0000:41:00.0")``. With a golden
        file, the XML is compared with that first. The order of attributes, white space between elements and comments
        don't count.

        With ``--virt-dra-update`` a golden file that differs or is missing is written instead. Raises AssertionError
        with a unified diff, and :class:`UnusableInput` where either isn't XML or the file can't be read or written.
        """
        __tracebackhide__ = True
        from virt_dra.pytest_plugin.domain_assertions import DomainAssertions
        from virt_dra.pytest_plugin.golden_domains import compare_with_golden

        try:
            if golden is not None:
                path = _located(self.folder, golden)
                if compare_with_golden(xml, path, update=self.update):
                    self.on_written(path)
            return DomainAssertions.from_xml(xml)
        except UnusableInput as error:
            raise error.with_traceback(None) from None


@pytest.fixture
def assert_vm_ready(request: pytest.FixtureRequest) -> VmReadyAssertion:
    """assert_vm_ready("vm.yaml", cluster="dump.yaml"): the VM gets its devices and its domain on this cluster, or why
    not."""
    return VmReadyAssertion(request.path.parent, request.config.getoption("--virt-dra-kubevirt"))


@pytest.fixture
def domain_xml(request: pytest.FixtureRequest) -> DomainXmlMaker:
    """domain_xml("vmi.yaml", {"gpus/gpu1": "0000:41:00.0"}): the libvirt domain of a VMI whose devices have these
    addresses."""
    return DomainXmlMaker(request.path.parent, request.config.getoption("--virt-dra-kubevirt"))


@pytest.fixture
def assert_domain_xml(request: pytest.FixtureRequest) -> DomainXmlAssertion:
    """assert_domain_xml(xml, "golden.xml"): the XML says what the file says; --virt-dra-update writes the file.
    assert_domain_xml(xml).has_hostdev(alias="gpu-gpu1"): what it has."""
    node: pytest.Item = request.node
    update = bool(request.config.getoption("--virt-dra-update"))
    return DomainXmlAssertion(request.path.parent, update, lambda path: node.user_properties.append((_WRITTEN, path)))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("virt-dra", "unit tests of VMs (virt-dra)")
    group.addoption(
        "--virt-dra-update",
        action="store_true",
        help="write golden files that assert_domain_xml finds different or missing",
    )
    group.addoption(
        "--virt-dra-kubevirt",
        metavar="VERSION",
        help="KubeVirt release whose rules apply where a test names none, for example "
        "1.8.3; default: the dump's, else the newest known",
    )


def pytest_configure(config: pytest.Config) -> None:
    version: str | None = config.getoption("--virt-dra-kubevirt")
    if version is not None:
        from virt_dra.api.kubevirt_versions import KubeVirtVersion

        try:
            KubeVirtVersion.parse_known(version)
        except ValueError as error:
            raise pytest.UsageError(f"--virt-dra-kubevirt: {error}") from None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = (
        report
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
    )
    written = {str(value): None for report in reports for name, value in report.user_properties if name == _WRITTEN}
    for path in sorted(written):
        terminalreporter.write_line(f"virt-dra: wrote {path}")


def _located(folder: Path, path: PathText) -> str:
    """The path for reading and for messages: relative to the working directory if it is below that, else absolute."""
    whole = folder / path
    try:
        return str(whole.relative_to(Path.cwd()))
    except ValueError:
        return str(whole)
