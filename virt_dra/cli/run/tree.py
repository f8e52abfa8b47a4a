"""One VM's outcome as a tree for people: a branch a hand-over, the failure where it happened with what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text
from rich.tree import Tree

from virt_dra.api.counting import counted
from virt_dra.api.go_text import visible
from virt_dra.simulator.embedded import Ran
from virt_dra.simulator.outcome import DeviceOutcome, HandOver, VmOutcome

SHOWN_SUBJECTS = 3
"""Nodes (or other subjects, whose first line isn't indented) of which the details are shown as text; as JSON and YAML
all are."""
SHOWN_LINES = 8
"""Lines of details shown of each of them."""


def notes_of(ran: Ran) -> list[str]:
    """What is to be said of the input beside the VMs: an assumed release, refused and replaced objects, devices that
    are held twice."""
    observed = ran.kubevirt.observed
    return [
        *([f"{observed}; {observed.advice}"] if observed is not None and observed.unreadable else []),
        *map(str, ran.refused),
        *map(str, ran.replaced),
        *(f"warning: {device}" for device in ran.held_twice),
    ]


def outcome_tree(outcome: VmOutcome, xml_path: str | None) -> Tree:
    """The tree of one VM. ``xml_path``: where its domain was written, if it was."""
    verdict = Text("ready", style="green") if outcome.ready else Text("not ready", style="red")
    title = visible(f"{outcome.kind} {outcome.namespace}/{outcome.name}: ")
    tree = Tree(Text.assemble(title, verdict, Text(f"  ({outcome.source})", style="dim")))
    if outcome.findings:
        verdict = Text("DENIED", style="bold red") if outcome.denied else Text("warnings")
        branch = tree.add(Text.assemble("lint: ", verdict))
        for finding in outcome.findings:
            branch.add(Text(str(finding)))
    for step in HandOver:
        failed = outcome.failure is not None and outcome.failure.step == step
        branch = tree.add(_heading(outcome, step, xml_path))
        for line in _facts(outcome, step):
            branch.add(Text(line))
        if failed:
            _add_failure(branch, outcome)
            break
    return tree


def _heading(outcome: VmOutcome, step: HandOver, xml_path: str | None) -> Text:
    failure = outcome.failure
    if failure is not None and failure.step == step:
        return Text.assemble(f"{step}: ", Text("FAILED", style="bold red"), f" {failure.reason}")
    match step:
        case HandOver.ADMISSION:
            return Text("admission: its VMI is there already" if outcome.taken_over else "admission: allowed")
        case HandOver.LAUNCHER_POD:
            return Text(f"launcher pod: {outcome.pod}")
        case HandOver.CLAIMS:
            return Text("claims" if outcome.claims else "claims: none")
        case HandOver.PLACEMENT:
            return Text(f"placement: node {outcome.node}")
        case HandOver.DEVICE_STATUS:
            return Text("deviceStatus" if outcome.devices else "deviceStatus: no devices")
        case HandOver.DOMAIN_XML:
            return Text(f"domain XML: {xml_path or 'made; --out DIR writes it'}")


def _facts(outcome: VmOutcome, step: HandOver) -> list[str]:
    match step:
        case HandOver.ADMISSION:
            findings = [finding.message for finding in outcome.findings]
            own = (text for text in outcome.warnings if not any(message in text for message in findings))
            return [f"warning: {warning}" for warning in own]
        case HandOver.CLAIMS:
            made = [f"from template {claim.template}" if claim.template else "made by hand" for claim in outcome.claims]
            return [f"{claim.entry}: {claim.claim} ({how})" for claim, how in zip(outcome.claims, made, strict=True)]
        case HandOver.PLACEMENT:
            return [
                f"{device.device}: {device.allocated} (claim {device.claim}, request {device.request})"
                for device in outcome.devices
                if device.allocated
            ]
        case HandOver.DEVICE_STATUS:
            return [
                f"{device.device}: {address}"
                for device in outcome.devices
                if (address := _address(device.pci_address, device.mdev_uuid) or _unaddressed(device))
            ]
        case HandOver.DOMAIN_XML:
            return [line for device in outcome.devices if (line := _element(device))]
        case HandOver.LAUNCHER_POD:
            return []


def _address(pci: str | None, mdev: str | None) -> str:
    if mdev:
        return f"mdev {mdev}" + (f", on the card at {pci}" if pci else "")
    return f"PCI {pci}" if pci else ""


def _unaddressed(device: DeviceOutcome) -> str:
    """A binding plugin's device needs no address that we know."""
    return "no address published" if device.binding is not None and device.allocated else ""


def _element(device: DeviceOutcome) -> str:
    if device.xml:
        return f"{device.device} (address from {device.source}): {device.xml}"
    if device.binding is None:
        return ""
    plugin = f"binding plugin {device.binding}" if device.binding else "its binding plugin"
    return f"{device.device}: no hostdev, {plugin} attaches it"


def _add_failure(branch: Tree, outcome: VmOutcome) -> None:
    failure = outcome.failure
    assert failure is not None
    branch.add(Text(failure.message))
    if failure.details and list(failure.details) != [failure.message]:
        _add_indented(branch.add(Text("in detail")), shown(failure.details))
    if failure.advice:
        branch.add(Text.assemble(Text("what to do: ", style="bold"), failure.advice))


def _add_indented(branch: Tree, lines: Iterable[str]) -> None:
    """Adds the lines, each below the last one that is indented less."""
    path: list[tuple[int, Tree]] = []
    for line in lines:
        text = line.lstrip(" ")
        indent = len(line) - len(text)
        while path and path[-1][0] >= indent:
            path.pop()
        path.append((indent, (path[-1][1] if path else branch).add(Text(text))))


def shown(details: Sequence[str]) -> list[str]:
    """The first lines, and the number of the others: a node has a line for each device that was refused."""
    lines: list[str] = []
    subjects = of_this = 0
    for line in details:
        if not line.startswith(" "):
            subjects, of_this = subjects + 1, 0
        of_this += 1
        if subjects <= SHOWN_SUBJECTS and of_this <= SHOWN_LINES:
            lines.append(line)
    if left := len(details) - len(lines):
        lines.append(f"and {counted(left, 'more line')}; -o json has them all, virt-dra explain groups them")
    return lines
