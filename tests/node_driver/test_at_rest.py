"""What policies see of a node whose devices claims have."""

from __future__ import annotations

from node_driver.at_rest import at_rest
from node_driver.devices import DeviceKind
from node_driver.hardware.inventory import Hardware, MdevType, MediatedDevice, PciFunction, VgpuFunction
from node_driver.host.changes import HostChange, HostProperty
from node_driver.state.records import ClaimRecord, DeviceRecord, Stage

NIC, GPU, VF1, VF2 = "0000:01:00.0", "0000:41:00.0", "0000:41:00.4", "0000:41:00.5"
UNSEEN = Hardware()
OURS, FOREIGN = "6b0d8f0a-0000-5000-8000-000000000001", "6b0d8f0a-0000-5000-8000-000000000002"


def claim(kind: DeviceKind, *changes: HostChange) -> ClaimRecord:
    return ClaimRecord("u", "ns", "c", Stage.DONE, devices=(DeviceRecord("d", kind, "r", NIC, changes=changes),))


def mdev_hardware(*made: MediatedDevice, small: int, large: int) -> Hardware:
    """A card that can make so many of each type."""
    types = (MdevType(GPU, "small", available=small), MdevType(GPU, "large", available=large))
    return Hardware(mdev_types={GPU: types}, mdevs={mdev.uuid: mdev for mdev in made})


def test_without_claims_nothing_changes() -> None:
    hardware = mdev_hardware(MediatedDevice(FOREIGN, GPU, "small"), small=1, large=0)
    assert at_rest(hardware, (), UNSEEN) == hardware


def test_a_claimed_function_is_on_its_driver_of_before() -> None:
    bound = PciFunction(NIC, "8086", "10d3", "020000", driver="vfio-pci", driver_override="vfio-pci")
    other = PciFunction(GPU, "10de", "2230", "030000", driver="nvidia")
    record = claim(DeviceKind.VFIO, HostChange(HostProperty.DRIVER, NIC, "e1000e/", "vfio-pci/vfio-pci"))
    free = PciFunction(NIC, "8086", "10d3", "020000", driver="e1000e")
    assert at_rest(Hardware({NIC: bound, GPU: other}), (record,), UNSEEN).functions == {NIC: free, GPU: other}
    assert at_rest(Hardware({GPU: other}), (record,), UNSEEN).functions == {GPU: other}


def test_a_card_offers_what_it_could_give_before_claims_took_mdevs() -> None:
    free = mdev_hardware(small=4, large=1)
    record = claim(DeviceKind.MDEV, HostChange(HostProperty.MDEV, OURS, "", f"{GPU}/small"))
    used = mdev_hardware(MediatedDevice(OURS, GPU, "small"), small=3, large=0)
    assert at_rest(used, (record,), earlier=at_rest(free, (), UNSEEN)) == free
    # after a restart what another type could give is only known when the card is free again
    assert at_rest(used, (record,), UNSEEN) == mdev_hardware(small=4, large=0)


def test_what_foreign_mdevs_take_is_not_offered() -> None:
    used = mdev_hardware(MediatedDevice(FOREIGN, GPU, "small"), small=3, large=0)
    assert at_rest(used, (), UNSEEN) == used


def test_a_vgpu_profile_of_a_claim_is_not_seen() -> None:
    functions = {
        address: PciFunction(address, "10de", "2230", "030000", driver="nvidia", physical_function=GPU)
        for address in (VF1, VF2)
    }
    both = {"1": "A40-8Q", "2": "A40-48Q"}
    free = Hardware(functions, vgpus={VF1: VgpuFunction(VF1, "0", both), VF2: VgpuFunction(VF2, "0", both)})
    used = Hardware(functions, vgpus={VF1: VgpuFunction(VF1, "1", {}), VF2: VgpuFunction(VF2, "0", {"1": "A40-8Q"})})
    record = claim(DeviceKind.VGPU, HostChange(HostProperty.VGPU_PROFILE, VF1, "0", "1"))
    assert at_rest(used, (record,), earlier=free) == free
    assert at_rest(used, (), UNSEEN) == used
