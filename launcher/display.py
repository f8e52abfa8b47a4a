"""The ``display`` and ``ramfb`` attributes of GPUs (K-7.18 to K-7.20)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from launcher.elements.hostdev import Hostdev
from virt_dra.api.kubevirt_v1 import GPU, VGPUDisplayOptions
from virt_dra.api.kubevirt_versions import MAIN, V1_9_0, KubeVirtVersion


def display_options(gpu: GPU | None) -> VGPUDisplayOptions | None:
    return gpu.virtual_gpu_options.display if gpu is not None and gpu.virtual_gpu_options is not None else None


def mdev_with_display(gpu: GPU | None, element: Hostdev) -> Hostdev:
    """An mdev GPU with the display that its entry asks for (K-7.18). ``ramFB: {}`` means true (K-7.20)."""
    options = display_options(gpu)
    if options is None or options.enabled is False:
        return element
    return element.shown(ramfb=options.ram_fb is None or options.ram_fb.enabled is not False)


def plugin_pci_with_display(gpu: GPU | None, element: Hostdev, version: KubeVirtVersion) -> Hostdev:
    """A PCI GPU of a device plugin with the display that its entry enables explicitly; none before KubeVirt 1.9
    (K-7.19)."""
    options = display_options(gpu)
    if version < V1_9_0 or options is None or options.enabled is not True:
        return element
    ramfb = options.ram_fb.enabled if options.ram_fb is not None else None
    return element.shown(ramfb=ramfb is not False if version >= MAIN else ramfb is True)


def with_default_display(elements: Sequence[Hostdev], gpus: Iterable[GPU]) -> tuple[Hostdev, ...]:
    """The elements; if no GPU of the VMI has ``display`` options, the first mdev among them gets a display (K-7.18)."""
    first = next((index for index, element in enumerate(elements) if element.is_mdev), None)
    if first is None or any(display_options(gpu) is not None for gpu in gpus):
        return tuple(elements)
    return (*elements[:first], elements[first].shown(ramfb=True), *elements[first + 1 :])
