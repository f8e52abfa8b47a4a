"""Checks of a node's kernel and of what containers get of it. Pure: facts in, findings out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from node_driver.devices import DeviceKind
from node_driver.hardware.inventory import DEFAULT_VFIO_DRIVER
from node_driver.node_check.facts import CONTAINERD, CRI_O, FileKind, KernelFacts, NodeExamination
from virt_dra.api.counting import counted
from virt_dra.api.integration.check_findings import CheckFinding, CheckSubject

GIB: Final = 1024**3
LAUNCHER_EXTRA: Final = GIB
"""What a launcher locks beside the guest's memory (hardware-lab.md)."""
SMALLEST_GUEST: Final = 64 * 1024**2
CDI_SINCE: Final[Mapping[str, tuple[int, int]]] = {CONTAINERD: (1, 7), CRI_O: (1, 28)}
"""Container runtime -> the release since which it gives containers the devices that a kubelet names."""
_CDI_BY_DEFAULT: Final = (2, 0)
"""The release of containerd since which it does so by default."""
_IOMMU_TABLES: Final = frozenset(("DMAR", "IVRS", "IORT", "VIOT"))
"""ACPI tables by which the firmware describes IOMMUs: of Intel, AMD, ARM and virtual machines."""
_INTEL: Final = "GenuineIntel"
_IN_FIRMWARE: Final = (
    "turn on VT-d (Intel), AMD-Vi or IOMMU (AMD), SMMU (ARM) in the firmware's settings; "
    "a node that is a VM itself needs a virtual IOMMU from its hypervisor"
)


def iommu(node: NodeExamination) -> Iterator[CheckFinding]:
    """Whether devices are isolated at all."""
    kernel, subject = node.facts.kernel, CheckSubject("iommu", "IOMMU")
    if kernel.iommu_groups:
        yield subject.ok(f"on, {counted(kernel.iommu_groups, 'IOMMU group')}")
        return
    off = _turned_off(kernel)
    tables = kernel.firmware_tables
    if off:
        advice = f"take {off} from the kernel's command line (GRUB_CMDLINE_LINUX in /etc/default/grub), and reboot"
        yield subject.error(f"off: the kernel's command line has {off}", advice)
    elif tables and tables.isdisjoint(_IOMMU_TABLES):
        yield subject.error("off: the firmware describes none (no table DMAR, IVRS, IORT or VIOT)", _IN_FIRMWARE)
    elif kernel.processor == _INTEL and not _turned_on(kernel):
        where = "" if tables else f"; if that doesn't help, {_IN_FIRMWARE}"
        advice = f"add intel_iommu=on iommu=pt to the kernel's command line, and reboot{where}"
        yield subject.error("off: the command line doesn't have intel_iommu=on", advice)
    else:
        advice = f"{_IN_FIRMWARE}; dmesg | grep -e DMAR -e AMD-Vi -e arm-smmu says what the kernel made of it"
        yield subject.error("off: the kernel has no IOMMU group", advice)


def _iommu_settings(kernel: KernelFacts) -> Iterator[tuple[str, str]]:
    """Each word about the IOMMU on the command line, with each of its settings."""
    for word in kernel.command_line:
        name, _, values = word.partition("=")
        if name in ("intel_iommu", "amd_iommu", "iommu"):
            yield from ((word, f"{name}={value}") for value in values.split(","))


def _turned_off(kernel: KernelFacts) -> str:
    """The word of the command line that turns the IOMMU off; "" if none does. Later words win."""
    last: dict[str, tuple[str, bool]] = {}
    for word, setting in _iommu_settings(kernel):
        name, _, value = setting.partition("=")
        other_processor = name == ("amd_iommu" if kernel.processor == _INTEL else "intel_iommu")
        if value in ("on", "off", "force") and not (other_processor and kernel.processor):
            last[name] = (word, value == "off")
    return next((word for word, off in last.values() if off), "")


def _turned_on(kernel: KernelFacts) -> bool:
    return any(setting == "intel_iommu=on" for _, setting in _iommu_settings(kernel))


def vfio(node: NodeExamination) -> Iterator[CheckFinding]:
    """Whether the drivers are loaded that devices are bound to."""
    kernel = node.facts.kernel
    for driver in _vfio_drivers(node):
        subject, module = CheckSubject("vfio", f"driver {driver}"), driver.replace("-", "_")
        load = f"modprobe {driver}; at each boot: echo {driver} > /etc/modules-load.d/{driver}.conf"
        if driver in kernel.pci_drivers:
            yield subject.ok("loaded")
        elif kernel.modules is None:
            of = f" of kernel {kernel.release}" if kernel.release else ""
            yield subject.error(f"not loaded; whether there is a module isn't known: no modules{of} are here", load)
        elif module in kernel.modules:
            yield subject.error("not loaded", load)
        else:
            advice = (
                f"install the rest of that kernel's modules (linux-modules-extra-{kernel.release} or kernel-modules), "
                "or boot a kernel that has it"
            )
            yield subject.error(f"not loaded, and kernel {kernel.release} has no module {module}", advice)


def _vfio_drivers(node: NodeExamination) -> list[str]:
    """Those that published devices are bound to; without any, the kernel's own."""
    devices = node.published.devices if node.published is not None else ()
    bound = {device.target_driver for device in devices if device.kind in (DeviceKind.VFIO, DeviceKind.SRIOV)}
    return sorted(bound) or ([] if devices else [DEFAULT_VFIO_DRIVER])


def device_nodes(node: NodeExamination) -> Iterator[CheckFinding]:
    """Whether containers can be given /dev/vfio, and launchers without root may open it."""
    nodes = node.facts.device_nodes
    if nodes is None:
        advice = "run node-check on the node itself"
        yield CheckSubject("device-nodes", "/dev/vfio").info("not examined: the tree has no /dev", advice)
        return
    groups = {
        path: state for path, state in nodes.items() if path.startswith("/dev/vfio/") and path != "/dev/vfio/vfio"
    }
    container = nodes["/dev/vfio/vfio"]
    subject = CheckSubject("device-nodes", "/dev/vfio/vfio")
    if container.kind is FileKind.NOTHING:
        if node.facts.kernel.pci_drivers.issuperset(_vfio_drivers(node)):  # else it comes with them
            advice = (
                "modprobe vfio; where /dev is no devtmpfs: mkdir -p /dev/vfio; mknod -m 666 /dev/vfio/vfio c 10 196"
            )
            yield subject.error("it isn't there", advice)
    elif container.kind is FileKind.OTHER:
        yield subject.error("it is no character device", "remove it, then modprobe -r vfio; modprobe vfio")
    elif container.mode & 0o006 != 0o006:
        advice = "chmod 666 /dev/vfio/vfio, and look for the udev rule that changes it: grep -r vfio /etc/udev/rules.d"
        message = f"its mode is {container.mode:04o}, the kernel's is 0666; a launcher without root can't open it"
        yield subject.warning(message, advice)
    else:
        with_groups = f", and {counted(len(groups), 'group')} beside it" if groups else ""
        yield subject.ok(f"there, mode {container.mode:04o}{with_groups}")
    for path, state in groups.items():
        if state.kind is not FileKind.CHARACTER:
            message = f"a device of that group is bound to VFIO, and at its node is {state.kind}"
            advice = "mount a devtmpfs at /dev, or wait for udev: udevadm settle"
            yield CheckSubject("device-nodes", path).error(message, advice)


def kvm(node: NodeExamination) -> Iterator[CheckFinding]:
    """Whether VMs run on the processor's virtualization."""
    nodes, kernel, subject = node.facts.device_nodes, node.facts.kernel, CheckSubject("kvm", "/dev/kvm")
    if nodes is not None and nodes["/dev/kvm"].kind is FileKind.CHARACTER:
        yield subject.ok("there")
    elif kernel.virtualization is False:
        advice = (
            "turn on VT-x (Intel) or SVM (AMD) in the firmware's settings; a node that is a VM itself needs nested "
            "virtualization from its hypervisor"
        )
        yield subject.error("the processor shows no virtualization (no flag vmx or svm)", advice)
    elif nodes is None:
        yield subject.info("not examined: the tree has no /dev", "run node-check on the node itself")
    elif nodes["/dev/kvm"].kind is FileKind.OTHER:
        yield subject.error("it is no character device", "remove it, and reboot")
    else:
        module = {_INTEL: "kvm_intel", "AuthenticAMD": "kvm_amd"}.get(kernel.processor, "kvm")
        yield subject.error("it isn't there", f"modprobe {module}; dmesg | grep -i kvm says why that fails")


def huge_pages(node: NodeExamination) -> Iterator[CheckFinding]:
    """Whether VMs that ask for huge pages get them."""
    subject = CheckSubject("huge-pages", "huge pages")
    configured = [pages for pages in node.facts.huge_pages if pages.total]
    if not configured:
        advice = (
            "for VMs with memory.hugepages only: add hugepagesz=1G hugepages=N to the kernel's command line, or write "
            "N to /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages; then restart the kubelet"
        )
        yield subject.info("none are configured", advice)
    for pages in configured:
        size = _size(pages.kib * 1024)
        if pages.free:
            yield subject.ok(f"{pages.free:,} of {pages.total:,} of {size} are free")
        else:
            advice = f"stop a VM that has some, or raise /sys/kernel/mm/hugepages/hugepages-{pages.kib}kB/nr_hugepages"
            yield subject.warning(f"all {pages.total:,} of {size} are in use", advice)


def locked_memory(node: NodeExamination) -> Iterator[CheckFinding]:
    """Whether launchers can lock a guest's memory, as VFIO does: they inherit the container runtime's limit."""
    if not node.facts.runtimes:
        advice = "run node-check where the node's processes are visible (hostPID: true)"
        message = "not known: no container runtime runs here, whose limit launchers inherit"
        yield CheckSubject("locked-memory", "locked memory").info(message, advice)
    for runtime in dict.fromkeys(node.facts.runtimes):
        subject, limit = CheckSubject("locked-memory", runtime.process), runtime.limit
        if limit is None:
            yield subject.ok("its pods may lock any amount of memory")
            continue
        guest = max(0, limit - LAUNCHER_EXTRA)
        reach = f"guests of {_size(guest)} at most" if guest >= SMALLEST_GUEST else "no guest"
        message = (
            f"its pods may lock {_size(limit)}: enough for {reach} (a launcher locks the guest's memory and "
            f"{_size(LAUNCHER_EXTRA)}), unless virt-handler raises the launcher's limit, as KubeVirt's does"
        )
        advice = (
            f"systemctl edit {runtime.process}, with the lines [Service] and LimitMEMLOCK=infinity; then restart it"
        )
        yield subject.warning(message, advice)


def programs(node: NodeExamination) -> Iterator[CheckFinding]:
    """Versions of QEMU and libvirt, which matter on the node only where launchers' images don't bring them."""
    for software, version in (node.facts.programs or {}).items():
        if software in CDI_SINCE:
            continue
        advice = "launchers use the QEMU and libvirt of their image, not the node's"
        message = f"version {version} is installed" if version else "installed, and doesn't say its version"
        yield CheckSubject("programs", software).info(message, advice)


def container_runtimes(node: NodeExamination) -> Iterator[CheckFinding]:
    """Whether those that run give containers the devices that a kubelet names (D-33)."""
    running = {runtime.process for runtime in node.facts.runtimes}
    for software, version in (node.facts.programs or {}).items():
        if software not in CDI_SINCE or software not in running or not version:
            continue
        subject, since = CheckSubject("container-runtime", software), CDI_SINCE[software]
        release = tuple(map(int, version.split(".")[:2]))
        if release < since:
            advice = f"install {software} {'.'.join(map(str, since))} or later"
            yield subject.error(f"version {version} doesn't give containers the devices of claims (CDI)", advice)
        elif software == CONTAINERD and release < _CDI_BY_DEFAULT:
            advice = "set enable_cdi = true in its CRI plugin's configuration, unless it is set"
            message = f"version {version} gives containers the devices of claims (CDI) where its configuration says so"
            yield subject.info(message, advice)
        else:
            yield subject.ok(f"version {version} gives containers the devices of claims (CDI)")


def _size(number: int) -> str:
    """A number of bytes for people, rounded down.

    >>> _size(8 * 1024**2), _size(1024**3 + 1), _size(65536), _size(10)
    ('8 MiB', '1 GiB', '64 KiB', '10 bytes')
    """
    for unit, factor in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if number >= factor:
            amount = int(number * 10 / factor) / 10
            return f"{amount:,.1f}".removesuffix(".0") + f" {unit}"
    return f"{number} bytes"
