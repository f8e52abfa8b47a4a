"""A machine with an IOMMU, emulated: devices are bound to vfio-pci and given to VMs inside (docs/spec/hardware-lab.md).

:mod:`.machine` describes it, boots it and talks to :mod:`.guest`, the program that runs commands inside.
``tools/hardware-lab.sh`` gets QEMU, a kernel and an initramfs. Needs root, since the machine's root folder is this
one's, read-only.
"""
