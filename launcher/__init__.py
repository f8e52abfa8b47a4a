"""From device addresses to libvirt's domain XML: what KubeVirt's launcher does, as a library.

To test the domain XML of your own VMI::

    from launcher import AddressSources, hostdevs

    def test_the_gpu_reaches_the_domain():
        vmi = yaml.safe_load(Path("vm.yaml").read_text())
        (gpu,) = hostdevs(vmi, AddressSources(env={"PCI_RESOURCE_NVIDIA_COM_A100": "0000:41:00.0"}))
        assert (gpu.device, gpu.source) == ("gpus/gpu1", "environment")
        assert 'bus="0x41"' in gpu.xml

Must not know: clusters, controllers, allocation. It sees a VMI, environment variables, metadata files and (if given)
the pod; it takes only ``virt_dra.api``. libvirt itself is reached through :mod:`launcher.process.libvirt_conn` alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from launcher.conversion import NO_SOURCES, AddressSources, ConversionInputs, ConvertedDevice
from launcher.devices import host_devices, warnings
from launcher.domain import domain
from launcher.elements.domain import Domain
from launcher.elements.hostdev import KUBEVIRT, LIBVIRT, Dialect
from launcher.elements.page import pretty
from launcher.errors import LauncherError
from launcher.features import check_supported
from launcher.hostdev_options import slots, with_followers, with_options, without_followers
from launcher.layout import layout
from launcher.placement.host import HostTopology
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance, vm_or_vmi_kind
from virt_dra.api.kubevirt_versions import NEWEST, KubeVirtVersion
from virt_dra.api.wire import WireError

__all__ = [
    "KUBEVIRT",
    "LIBVIRT",
    "AddressSources",
    "Conversion",
    "ConvertedDevice",
    "Dialect",
    "HostTopology",
    "LauncherError",
    "as_vmi",
    "convert",
    "domain_xml",
    "hostdevs",
]

AnyVmi = VirtualMachineInstance | VirtualMachine | Mapping[str, object]
"""A VMI, as an object or as a dict parsed from YAML; a VirtualMachine stands for the VMI that it would start."""


@dataclass(frozen=True)
class Conversion:
    """The result of converting a VMI. ``warnings``: sentences about faults that didn't prevent the conversion."""

    hostdevs: tuple[ConvertedDevice, ...]
    domain: Domain
    warnings: tuple[str, ...]

    @property
    def domain_xml(self) -> str:
        """The ``<domain>``, indented."""
        return pretty(self.domain)


def hostdevs(
    vmi: AnyVmi, sources: AddressSources = NO_SOURCES, *, kubevirt: KubeVirtVersion | str = NEWEST
) -> tuple[ConvertedDevice, ...]:
    """The host devices of a VMI in the order of ``<devices>`` (K-7.22), each with ``.device``, ``.source``,
    ``.address`` and ``.xml``.

    Raises :class:`LauncherError`, or :class:`virt_dra.api.wire.WireError` for a dict that is no VMI.
    """
    inputs = _inputs(vmi, sources, kubevirt)
    return with_options(inputs.vmi, host_devices(inputs))


def domain_xml(
    vmi: AnyVmi,
    sources: AddressSources = NO_SOURCES,
    *,
    kubevirt: KubeVirtVersion | str = NEWEST,
    topology: HostTopology | None = None,
) -> str:
    """A complete domain that libvirt defines, indented. Arguments and errors are those of :func:`convert`."""
    return convert(vmi, sources, kubevirt=kubevirt, topology=topology).domain_xml


def convert(
    vmi: AnyVmi,
    sources: AddressSources = NO_SOURCES,
    *,
    kubevirt: KubeVirtVersion | str = NEWEST,
    dialect: Dialect = LIBVIRT,
    topology: HostTopology | None = None,
    cpus: Collection[int] | None = None,
    spare_ports: int = 0,
    libvirt: str | None = None,
) -> Conversion:
    """Devices, domain and warnings in one go. Arguments and errors are those of :func:`hostdevs`.

    The domain is written in libvirt's dialect; ``dialect=KUBEVIRT`` writes the elements as KubeVirt hands them to
    libvirt. On a host with a known ``topology``, dedicated CPUs are pinned to some of ``cpus`` (the pod's; by default
    all), and devices are placed as KubeVirt does with its gate PCINUMAAwareTopology, or as the VMI's annotation says
    (K-8). ``spare_ports``: PCIe root ports that are left free for devices that are attached while the guest runs. With
    ``libvirt`` (``9.0.0``), a domain that this release can't run is an error; without, nothing is judged.
    """
    inputs = _inputs(vmi, sources, kubevirt)
    devices = with_options(inputs.vmi, host_devices(inputs))
    shared = slots(inputs.vmi, devices)
    guest = layout(inputs, without_followers(devices, shared), topology, cpus)
    guest = with_followers(guest, devices, shared)
    page, lost = domain(inputs.vmi, guest, dialect, spare_ports)
    if libvirt is not None:
        check_supported(page, libvirt)
    return Conversion(guest.devices, page, (*warnings(inputs, devices), *guest.warnings, *lost))


def _inputs(vmi: AnyVmi, sources: AddressSources, kubevirt: KubeVirtVersion | str) -> ConversionInputs:
    version = KubeVirtVersion.parse_known(kubevirt) if isinstance(kubevirt, str) else kubevirt
    return ConversionInputs(as_vmi(vmi), sources, version)


def as_vmi(given: AnyVmi) -> VirtualMachineInstance:
    """The VMI that is converted: of a VM the one that it would start. Raises :class:`virt_dra.api.wire.WireError`."""
    if isinstance(given, VirtualMachineInstance):
        return given
    if not isinstance(given, VirtualMachine):
        kind = vm_or_vmi_kind(given)
        if kind == VirtualMachineInstance.KIND:
            return VirtualMachineInstance.from_wire(dict(given))
        if kind != VirtualMachine.KIND:
            fault = f"must be {VirtualMachineInstance.KIND} or {VirtualMachine.KIND}"
            raise WireError(VirtualMachineInstance.KIND, (("kind", fault),))
        given = VirtualMachine.from_wire(dict(given))
    template = given.spec.template
    metadata = template.metadata.with_(name=given.name, namespace=given.namespace)
    return VirtualMachineInstance(metadata=metadata, spec=template.spec)
