"""The domain of a migration's target: the source's, with the mediated device that the target has (K-10.4).
:mod:`virt_dra.api.integration.live_migration` decides which VMI may migrate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lxml import etree

from launcher.elements.hostdev import Hostdev
from launcher.elements.page import checked_text, root
from launcher.errors import NOT_MIGRATABLE, LauncherError
from virt_dra.api.kubevirt_versions import MAIN, NEWEST, KubeVirtVersion


def on_target(domain_xml: str, gpus: Sequence[Hostdev], kubevirt: KubeVirtVersion = NEWEST) -> str:
    """The source's domain with the UUIDs of the target's vGPUs; all else is kept, unknown elements included.

    ``gpus``: the elements of the VMI's GPUs on the target. A domain without host devices and a VMI without GPUs stay as
    they are. Through 1.9 there may be one of each; main pairs several by alias. Raises :class:`LauncherError` in
    KubeVirt's words, and for a text that is no domain.
    """
    domain = root(domain_xml)
    if domain.tag != "domain":
        raise _not_migratable("domain", f"the source's domain is a <{domain.tag}>")
    hostdevs = domain.findall("devices/hostdev")
    if not gpus or not hostdevs:
        return domain_xml
    if kubevirt < MAIN and (len(hostdevs) > 1 or len(gpus) > 1):
        raise _not_migratable("devices", "the migrating vmi should only have one vGPU")
    aliased = ((hostdev.find("alias"), hostdev) for hostdev in reversed(hostdevs))
    by_alias = {alias.get("name"): hostdev for alias, hostdev in aliased if alias is not None}
    for gpu in gpus:
        subject = f"hostdev {gpu.alias}"
        if gpu.source_uuid is None:
            raise _not_migratable(subject, f"unsupporting gpu type for migration: {gpu.type}")
        source = hostdevs[0] if kubevirt < MAIN else _paired(gpu, by_alias)
        address = source.find("source/address") if source.get("type") == "mdev" else None
        if address is None:
            raise _not_migratable(subject, "failed to retrieve mdev vGPU from domain")
        address.set("uuid", checked_text(gpu.source_uuid))
    return etree.tostring(domain, encoding="unicode")


def _paired(gpu: Hostdev, by_alias: Mapping[str | None, etree._Element]) -> etree._Element:
    fault = "failed to locate corresponding host device for GPU"
    if gpu.alias is None:
        raise _not_migratable("hostdev", f"{fault}: it has no alias")
    hostdev = by_alias.get(gpu.alias)
    if hostdev is None:
        raise _not_migratable(f"hostdev {gpu.alias}", f"{fault}: no matching host device for GPU alias {gpu.alias}")
    return hostdev


def _not_migratable(subject: str, message: str) -> LauncherError:
    return LauncherError(NOT_MIGRATABLE, subject, message)
