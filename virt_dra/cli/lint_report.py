"""What ``virt-dra lint`` found, as lines for people and as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from virt_dra.api.documents import Source
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import KubeVirtVersion, ObservedVersion
from virt_dra.api.wire import Json
from webhooks.lint import DENIAL, Finding, visible

FORMAT = 1
"""Of the JSON object; grows when a member changes its meaning or goes away."""

_KINDS = {"DeviceClass": "DeviceClasses", "ResourceSlice": "ResourceSlices"}


@dataclass(frozen=True)
class Judged:
    """A VM or VMI, where it was read, its namespace, and the findings on it."""

    vm: VirtualMachine | VirtualMachineInstance
    source: Source
    namespace: str
    findings: tuple[Finding, ...]

    @property
    def title(self) -> str:
        return f"{self.vm.KIND} {self.namespace}/{self.vm.name or self.vm.metadata.generate_name}"

    def to_json(self) -> Json:
        findings = [
            {"id": each.id, "severity": each.severity, "field": each.field, "message": each.message, "page": each.page}
            for each in self.findings
        ]
        return {
            "kind": self.vm.KIND,
            "namespace": self.namespace,
            "name": self.vm.name or self.vm.metadata.generate_name,
            "file": self.source.name,
            "line": self.source.line,
            "findings": findings,
        }


@dataclass(frozen=True)
class Report:
    """``not_checked``: the kinds of which nothing is known. ``observed``: what the KubeVirt object says of its version, if there is one."""

    version: KubeVirtVersion
    judged: tuple[Judged, ...]
    not_checked: tuple[str, ...]
    observed: ObservedVersion | None = None

    @property
    def denials(self) -> int:
        return sum(each.severity == DENIAL for vm in self.judged for each in vm.findings)

    @property
    def warnings(self) -> int:
        return sum(each.severity != DENIAL for vm in self.judged for each in vm.findings)

    def lines(self) -> Iterator[str]:
        """One a finding: where the VM is, which it is, what was found, the id. Then the sum."""
        for vm in self.judged:
            for each in vm.findings:
                yield f"{visible(f'{vm.source}: {vm.title}')}: {each.severity}: {each.field}: {each.message} [{each.id}]"
        yield (
            f"{_counted(len(self.judged), 'VM')} checked against KubeVirt {self.version}: "
            f"{_counted(self.denials, 'denial')}, {_counted(self.warnings, 'warning')}"
        )
        if self.observed is not None and self.observed.unreadable:
            yield f"{self.observed}; {self.observed.advice}"
        if self.not_checked:
            kinds = " and ".join(_KINDS.get(kind, kind) for kind in self.not_checked)
            yield f"not checked: what needs {kinds}, of which the files have none; add those of the cluster"

    def to_json(self) -> Json:
        return {
            "version": FORMAT,
            "kubevirt": str(self.version),
            "kubevirtAssumed": self.observed is not None and self.observed.unreadable,
            "denials": self.denials,
            "warnings": self.warnings,
            "notChecked": list(self.not_checked),
            "objects": [vm.to_json() for vm in self.judged],
        }


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
