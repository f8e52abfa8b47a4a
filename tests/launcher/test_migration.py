"""The mediated device in the domain of a migration's target (K-10.4)."""

from __future__ import annotations

import pytest

from devtools.libvirt import witness as libvirt_witness
from launcher import AddressSources, LauncherError, convert
from launcher.elements.hostdev import Hostdev, mdev, pci
from launcher.errors import NOT_MIGRATABLE
from launcher.host_addresses.mdev import MdevUuid
from launcher.host_addresses.pci import PciAddress
from launcher.migration import on_target
from virt_dra.api.kubevirt_versions import MAIN, NEWEST, V1_9_0, KubeVirtVersion

OLD, NEW, OTHER = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "abc")
EXTRA = (
    '<domain xmlns:q="http://libvirt.org/schemas/domain/qemu/1.0"><!-- kept --><q:commandline/><devices>{}</devices>'
)


def vgpu(uuid: str, name: str = "g") -> Hostdev:
    return mdev(MdevUuid(uuid), f"gpu-{name}")


def whole(name: str = "g") -> Hostdev:
    return pci(PciAddress.parse("0000:41:00.0"), f"gpu-{name}")


def hostdev(uuid: str, name: str = "g") -> str:
    address = f'<source><address uuid="{uuid}"/></source><future a="1"/>'
    return f'<hostdev type="mdev" model="vfio-pci">{address}<alias name="ua-gpu-{name}"/></hostdev>'


def domain(*hostdevs: str) -> str:
    return EXTRA.format("".join(hostdevs)) + "</domain>"


@pytest.mark.parametrize("kubevirt", [V1_9_0, NEWEST, MAIN])
def test_the_target_gets_its_own_vgpu_and_keeps_all_else(kubevirt: KubeVirtVersion) -> None:
    assert on_target(domain(hostdev(OLD)), [vgpu(NEW)], kubevirt) == domain(hostdev(NEW))


@pytest.mark.parametrize("gpus", [[], [vgpu(NEW)], [vgpu(NEW), vgpu(OTHER, "h")]])
def test_a_domain_without_host_devices_stays_as_it_is(gpus: list[Hostdev]) -> None:
    assert on_target(domain(), gpus) == domain()


def test_host_devices_of_a_vmi_without_gpus_stay_as_they_are() -> None:
    assert on_target(domain(hostdev(OLD), hostdev(OTHER)), []) == domain(hostdev(OLD), hostdev(OTHER))


def test_main_pairs_several_vgpus_by_alias() -> None:
    source = domain(hostdev(OLD, "one"), hostdev(OTHER, "two"))
    target = on_target(source, [vgpu(NEW, "two"), vgpu(OLD, "one")], MAIN)
    assert target == domain(hostdev(OLD, "one"), hostdev(NEW, "two"))


PCI_SOURCE = '<hostdev type="pci"><source><address domain="0"/></source><alias name="ua-gpu-g"/></hostdev>'


@pytest.mark.parametrize(
    ("source", "gpus", "kubevirt", "subject", "message"),
    [
        (domain(hostdev(OLD), hostdev(OTHER, "h")), [vgpu(NEW)], NEWEST, "devices",
         "the migrating vmi should only have one vGPU"),
        (domain(hostdev(OLD)), [vgpu(NEW), vgpu(OTHER, "h")], NEWEST, "devices",
         "the migrating vmi should only have one vGPU"),
        (domain(hostdev(OLD)), [whole()], NEWEST, "hostdev ua-gpu-g", "unsupporting gpu type for migration: pci"),
        (domain(PCI_SOURCE), [vgpu(NEW)], NEWEST, "hostdev ua-gpu-g", "failed to retrieve mdev vGPU from domain"),
        (domain('<hostdev type="mdev"/>'), [vgpu(NEW)], NEWEST, "hostdev ua-gpu-g",
         "failed to retrieve mdev vGPU from domain"),
        (domain(hostdev(OLD, "x")), [vgpu(NEW)], MAIN, "hostdev ua-gpu-g",
         "failed to locate corresponding host device for GPU: no matching host device for GPU alias ua-gpu-g"),
        ("<network/>", [vgpu(NEW)], NEWEST, "domain", "the source's domain is a <network>"),
    ],
)  # fmt: skip
def test_what_can_not_be_exchanged_is_refused_in_kubevirts_words(
    source: str, gpus: list[Hostdev], kubevirt: KubeVirtVersion, subject: str, message: str
) -> None:
    with pytest.raises(LauncherError) as refusal:
        on_target(source, gpus, kubevirt)
    assert (refusal.value.reason, refusal.value.subject, refusal.value.message) == (NOT_MIGRATABLE, subject, message)


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
def test_libvirt_defines_the_targets_domain() -> None:
    """Both domains are our own: the target's differs from the source's by the UUID alone."""

    def converted(uuid: str) -> tuple[str, list[Hostdev]]:
        vmi = {
            "kind": "VirtualMachineInstance",
            "metadata": {"name": "vm"},
            "spec": {"domain": {"devices": {"gpus": [{"name": "g", "deviceName": "v.com/vgpu"}]}}},
        }
        conversion = convert(vmi, AddressSources({"MDEV_PCI_RESOURCE_V_COM_VGPU": uuid}))
        return conversion.domain_xml, [device.element for device in conversion.hostdevs]

    (source, _), (target, gpus) = converted(OLD), converted(NEW)
    rewritten = on_target(source, gpus)
    assert rewritten == target.rstrip("\n")
    libvirt_witness.define(rewritten, libvirt_witness.TEST_DRIVER)
