"""``virt-dra domain-xml --jsonl``: VMIs with their devices' addresses in, libvirt XML out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from launcher import AddressSources, LauncherError, convert
from virt_dra.api.core_v1 import Pod
from virt_dra.api.wire import Json, WireError
from virt_dra.cli.jsonl.members import BadLine, member, under
from virt_dra.cli.jsonl.vmi_members import gates_of, vmi_of

if TYPE_CHECKING:
    from virt_dra.cli.documents.output_types import DomainAnswerJson, HostdevJson

REFUSAL: Json = {"hostdevs": [], "domain": None}
MEMBERS: Final = ("vmi", "env", "files", "rawFiles", "kubevirt", "gates", "pod")


def answer(request: Json) -> DomainAnswerJson:
    """The domain for a request. A conversion that fails is an answer, not a bad line: ``hostdevs`` is empty, ``domain``
    null and ``error`` KubeVirt's text. Raises BadLine or WireError for a request that can't be understood."""
    vmi = vmi_of(request)
    sources = AddressSources(_texts(request, "env"), _files(request), _pod(request))
    try:
        result = convert(vmi, sources, kubevirt=gates_of(request).version)
    except LauncherError as error:
        return {"hostdevs": [], "domain": None, "error": str(error)}
    hostdevs: list[HostdevJson] = [
        {"device": device.device, "source": device.source, "xml": device.xml} for device in result.hostdevs
    ]
    answered: DomainAnswerJson = {"hostdevs": hostdevs, "domain": result.domain_xml, "error": None}
    if result.warnings:
        answered["warnings"] = list(result.warnings)
    return answered


def _files(request: Json) -> dict[str, str] | None:
    """Metadata files by absolute path: ``files`` as JSON objects, ``rawFiles`` as they are. None where neither was
    given."""
    if request.get("files") is None and request.get("rawFiles") is None:
        return None
    objects = member(request, "files", dict, {})
    files = {path: json.dumps(value, ensure_ascii=False) for path, value in objects.items()} | _texts(
        request, "rawFiles"
    )
    for path in files:
        if not path.startswith("/"):
            raise BadLine(f"files: {json.dumps(path)} must be the absolute path of a file in the compute container")
    return files


def _texts(request: Json, name: str) -> dict[str, str]:
    """A member of the request that maps texts to texts; a ``null`` value counts as absent."""
    given = {
        key: member({f"{name}.{key}": value}, f"{name}.{key}", str)
        for key, value in member(request, name, dict, {}).items()
    }
    return {key: text for key, text in given.items() if text is not None}


def _pod(request: Json) -> Pod | None:
    raw = member(request, "pod", dict)
    try:
        return None if raw is None else Pod.from_wire(raw)
    except WireError as error:
        raise under("pod", error) from None
