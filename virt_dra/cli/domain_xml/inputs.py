"""The files of the command's options, each of which ends in a value or in one sentence with the file's name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from launcher import HostTopology, LauncherError, as_vmi
from launcher.addresses.metadata_files import read_base, read_folder
from launcher.comparison.facts import DomainFacts, facts
from launcher.elements.page import root
from launcher.placement.host_text import read_host_text
from launcher.placement.sysfs import read_host
from virt_dra.api.core_v1 import Pod
from virt_dra.api.instancetypes.expansion import expand
from virt_dra.api.integration.device_metadata import BASE, BASE_1_8_0, DIRECT, TEMPLATES
from virt_dra.api.kubevirt_v1 import DeviceStatus, VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.profiles.lines import AdmittedVm, was_admitted
from virt_dra.api.reading.documents import DocumentError, Sourced, read_documents
from virt_dra.api.reading.namespaces import in_namespace
from virt_dra.api.wire import WireError
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.feeds.admitted import surroundings_of

MAX_BYTES: Final = 4 * 1024 * 1024
"""Limit of a file that an option names. An API server's is 3 MiB."""


class OptionFileError(Exception):
    """A file that can't be used; the text names it."""


@dataclass(frozen=True)
class SubjectVm:
    """A VMI to convert, or that of a VM with its instancetype and preference applied, and with the devices of its line.
    ``refusals``: why KubeVirt wouldn't make a VMI of it; ``warnings``: what of it isn't known."""

    kind: str
    vmi: VirtualMachineInstance
    place: str
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.kind} {self.vmi.namespace}/{self.vmi.name}"

    def with_status(self, status: DeviceStatus) -> SubjectVm:
        return replace(self, vmi=self.vmi.with_(status=self.vmi.status.with_(device_status=status)))


def subject_vms(objects: Iterable[Sourced[TypedObject]], namespace: str) -> tuple[SubjectVm, ...]:
    """The VMIs and VMs among the objects in their order, a VM that has a VMI there as that one."""
    objects = tuple(Sourced(in_namespace(sourced.object, namespace), sourced.source) for sourced in objects)
    surroundings = surroundings_of(ClusterModel(sourced.object for sourced in objects))
    started = {sourced.object.key for sourced in objects if isinstance(sourced.object, VirtualMachineInstance)}
    subjects: list[SubjectVm] = []
    for sourced in objects:
        obj = sourced.object
        refusals: tuple[str, ...] = ()
        missing: tuple[str, ...] = ()
        if isinstance(obj, VirtualMachineInstance):
            vm: VirtualMachine | VirtualMachineInstance = obj
        elif isinstance(obj, VirtualMachine) and obj.key not in started:
            expansion = expand(obj, surroundings.instancetypes, namespace)
            vm = expansion.vm
            refusals = tuple(f"{refusal.field}: {refusal.message}" for refusal in expansion.refusals)
            missing = tuple(f"{missing.field}: {missing} isn't in the files" for missing in expansion.missing)
        else:
            continue
        admitted = AdmittedVm(vm) if was_admitted(vm) else surroundings.admitted(vm)
        refusals += tuple(map(str, admitted.refusals))
        subjects.append(SubjectVm(obj.kind, as_vmi(admitted.vm), str(sourced.source), refusals, missing))
    return tuple(subjects)


def variables_in(path: Path) -> dict[str, str]:
    """Variables as ``env`` prints them, a line each, or ``env -0`` and ``/proc/PID/environ``. Raises
    :class:`OptionFileError`."""
    text = _text(path)
    variables: dict[str, str] = {}
    for number, line in enumerate(text.split("\0") if "\0" in text else text.splitlines(), 1):
        name, equals, value = line.partition("=")
        if line.strip() and not (equals and name):
            raise OptionFileError(
                f"{path}: line {number}: must be NAME=VALUE; take it with: kubectl exec POD -c compute -- env -0"
            )
        if line.strip():
            variables[name] = value
    return variables


def metadata_in(folder: Path) -> dict[str, str]:
    """The metadata files in a folder that stands for the container's ``/``, or for the one in which drivers put them.
    Raises :class:`OptionFileError`."""
    if not folder.is_dir():
        raise OptionFileError(f"{folder}: no such folder")
    try:
        if any((folder / name).is_dir() for name in (DIRECT, TEMPLATES)):
            return read_base(folder)
        files = read_folder(folder)
    except OSError as error:
        raise OptionFileError(f"{error.filename or folder}: {error.strerror or error}") from None
    if not files:
        raise OptionFileError(
            f"{folder}: has no metadata files: neither {DIRECT} nor {TEMPLATES} is in it, "
            f"and nothing is below {folder}{BASE} or {folder}{BASE_1_8_0}"
        )
    return files


def device_status_in(path: Path) -> DeviceStatus:
    """``status.deviceStatus``: the object itself, or a VMI that has it. Raises :class:`OptionFileError`."""
    raw = _document(path)
    with _naming(path):
        if isinstance(raw, Mapping) and raw.get("kind") == VirtualMachineInstance.KIND:
            status = VirtualMachineInstance.from_wire(dict(raw)).status.device_status
            if status is None:
                raise OptionFileError(f"{path}: the VirtualMachineInstance has no status.deviceStatus")
            return status
        if not isinstance(raw, Mapping) or not raw.keys() & {"gpuStatuses", "hostDeviceStatuses"}:
            raise OptionFileError(
                f"{path}: must be a deviceStatus (with gpuStatuses or hostDeviceStatuses) or a VirtualMachineInstance"
            )
        return DeviceStatus.from_wire(dict(raw))


def pod_in(path: Path) -> Pod:
    """The launcher pod. Raises :class:`OptionFileError`."""
    raw = _document(path)
    if not isinstance(raw, Mapping) or raw.get("kind") != Pod.KIND:
        raise OptionFileError(f"{path}: must be a Pod")
    with _naming(path):
        return Pod.from_wire(dict(raw))


def topology_in(path: Path) -> HostTopology:
    """The topology of the host whose sysfs the folder is, or that the file describes. Raises
    :class:`OptionFileError`."""
    if path.is_dir():
        return read_host(path)
    with _naming(path):
        return read_host_text(_text(path), str(path))


def domain_in(path: Path) -> DomainFacts:
    """The facts of a ``<domain>``. Raises :class:`OptionFileError`."""
    with _naming(path):
        element = root(_bytes(path))
    if element.tag != "domain":
        raise OptionFileError(f"{path}: must be a <domain>, not <{element.tag}>")
    return facts(element)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors about the content of the file become :class:`OptionFileError`."""
    try:
        yield
    except (WireError, LauncherError) as error:
        raise OptionFileError(f"{path}: {error}") from None


def _bytes(path: Path) -> bytes:
    """Raises :class:`OptionFileError`."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise OptionFileError(f"{path}: {error.strerror or error}") from None
    if len(text) > MAX_BYTES:
        raise OptionFileError(f"{path}: has more than {MAX_BYTES} bytes")
    return text


def _text(path: Path) -> str:
    return _bytes(path).decode(errors="replace")


def _document(path: Path) -> object:
    try:
        documents = read_documents(_bytes(path), str(path))
    except DocumentError as error:
        raise OptionFileError(str(error)) from None
    if len(documents) != 1:
        raise OptionFileError(f"{path}: has {len(documents)} documents; it must have one")
    return documents[0].raw
