"""``virt-dra domain-xml``: the libvirt domains of VMs in files, validated, or compared with another; or JSON lines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from virt_dra.api.kubevirt_v1 import KubeVirt
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.cli.jsonl import domain_xml as filter_lines
from virt_dra.cli.jsonl.lines import answer_stream
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.options import file_inputs, kubevirt_option, namespace_option, output_option, parsed_by
from virt_dra.cli.shared.output import print_output, refuse, refusing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from launcher import Dialect
    from virt_dra.cli.domain_xml.inputs import SubjectVm
    from virt_dra.cli.domain_xml.making import DomainAnswer

HELP = """Make the libvirt domain of a VM or VMI, as KubeVirt's launcher would: no cluster, no libvirt.

The addresses of devices come from the VMI's own status.deviceStatus and from what its launcher reads: --metadata,
--env. Take both from a running pod, or write them. Of a VM with an instancetype, the file needs that, too.
The domain has what bears on devices; firmware and network interfaces (but SR-IOV with a claim) are left out.

With --diff, what differs from another domain in host devices and their placement is shown instead: by meaning, so that
neither the spelling of numbers, the order of elements nor what libvirt fills in counts.

With --jsonl, FILE has requests (- or nothing: standard input), one JSON object per line, each answered before the next
is read:

\b
  id              any value; the answer repeats it
  vmi             the VMI or VM, as an object: the only one that is required
  env             variables of the compute container: {name: value}
  files, rawFiles its metadata files by absolute path: as objects, as texts
  kubevirt, gates a release, e.g. "1.9"; its feature gates
  pod             the launcher pod, whose status has the names of claims

\b
The answer: "id", "hostdevs": [{"device": "gpus/NAME", "source": "status"|"metadata"|"environment", "xml"}], "domain",
"error" (its text), and "warnings": [text] where there are any."""

EPILOG = """\b
Examples:
  virt-dra domain-xml -f examples/testing/vm.yaml --status examples/testing/status.yaml
  virt-dra domain-xml -f examples/testing/vm.yaml --status examples/testing/status.yaml --validate -o yaml
  virt-dra domain-xml -f examples/testing/vm.yaml --status examples/testing/status.yaml --diff examples/testing/vm.xml
  kubectl exec POD -c compute -- env -0 > env; kubectl exec POD -c compute -- virsh dumpxml 1 > kubevirt.xml
  kubectl get vmi VMI -o yaml | virt-dra domain-xml -f - --env env --diff kubevirt.xml   what does KubeVirt differently?
  virt-dra domain-xml --jsonl examples/requests/domain-xml.jsonl

\b
Exit codes: 0 every VM has a domain (--validate: that libvirt's schema allows; --diff: that doesn't differ), 1 one
hasn't, 2 bad usage or unreadable input. With --jsonl: 0 every line has its answer, which may be its error.
"""

_PATH = click.Path(path_type=Path)


def _cpus(text: str) -> tuple[int, ...]:
    from launcher.placement.cpu_lists import parse_cpu_list  # here, as it imports the launcher

    return parse_cpu_list(text)


def _dialect(name: str) -> Dialect:
    """No Choice: of an option's short spelling, which ``kubevirt`` is, click makes the option's name."""
    from launcher import KUBEVIRT, LIBVIRT

    dialects = {"libvirt": LIBVIRT, "kubevirt": KUBEVIRT}
    if name not in dialects:
        raise ValueError(f"{name!r} is neither libvirt nor kubevirt")
    return dialects[name]


@click.command(name="domain-xml", help=HELP, epilog=EPILOG)
@file_inputs("VMs or VMIs; - is standard input.")
@namespace_option
@shared("--vmi", detail="Of the files, only it is converted.")
@click.option("--metadata", metavar="DIR", type=_PATH,
              help="Metadata files of drivers: a copy of the container's / or of "
"/var/run/kubernetes.io/dra-device-attributes.")  # fmt: skip
@click.option("--env", metavar="FILE", type=_PATH,
              help="Variables of the compute container, as env or env -0 prints them.")  # fmt: skip
@click.option("--status", metavar="FILE", type=_PATH,
              help="A status.deviceStatus, or a VMI with one, in place of the VMI's own.")  # fmt: skip
@click.option("--pod", metavar="FILE", type=_PATH,
              help="The launcher pod, whose status has the names of generated claims.")  # fmt: skip
@click.option("--topology", metavar="FILE|DIR", type=_PATH,
              help="Place devices and vCPUs on NUMA nodes and PCIe roots of a host: its /sys, or a text.")  # fmt: skip
@click.option("--cpus", metavar="LIST", callback=parsed_by(_cpus),
              help="CPUs of the host that the pod got, such as 1,2,5-6; by default all.")  # fmt: skip
@kubevirt_option
@click.option("--dialect", metavar="libvirt|kubevirt", default="libvirt", show_default=True,
              callback=parsed_by(_dialect), help="As libvirt's schema allows, or as KubeVirt writes it.")  # fmt: skip
@click.option("--validate", is_flag=True, help="Check the domains by libvirt's schema, which must be installed.")
@click.option("--diff", "other", metavar="FILE", type=_PATH,
              help="Show what differs from this domain (of virsh dumpxml) in host devices and placement.")  # fmt: skip
@output_option("xml", "json", "yaml")
@shared("--jsonl")
@click.pass_context
def command(
    context: click.Context, paths: tuple[str, ...], namespace: str, vmi: str | None,
    metadata: Path | None, env: Path | None, status: Path | None, pod: Path | None, topology: Path | None,
    cpus: tuple[int, ...] | None,
    kubevirt: KubeVirtVersion | None, dialect: Dialect, validate: bool, other: Path | None, output: str, jsonl: bool,
) -> None:  # fmt: skip
    if jsonl:
        if len(paths) > 1 or any((vmi, metadata, env, status, pod, topology, cpus, kubevirt, validate, other)):
            raise click.UsageError(
                "--jsonl goes with a file of requests only; each request contains what the options say"
            )
        stream: IO[bytes] = click.File("rb").convert(paths[0] if paths else "-", None, context)
        answer_stream(stream, "DomainAnswer", filter_lines.answer, filter_lines.REFUSAL, filter_lines.MEMBERS)
        return
    if not paths:
        raise click.UsageError("name the VMs: virt-dra domain-xml -f vm.yaml (a file of requests goes with --jsonl)")
    if cpus is not None and topology is None:
        raise click.UsageError("--cpus says which CPUs of a host: name its --topology, too")
    from launcher import AddressSources, LauncherError
    from virt_dra.cli.domain_xml import inputs
    from virt_dra.cli.domain_xml.making import DomainListJson, DomainRequest, answer
    from virt_dra.cli.shared.file_input import sourced_of_files
    from webhooks.lint.inputs import KubeVirtAtHand

    objects = sourced_of_files(paths, output)
    subjects = inputs.subject_vms(objects, namespace)
    if vmi is not None:
        subjects = tuple(subject for subject in subjects if _is_named(subject, vmi, namespace))
    if not subjects:
        missing = "no VirtualMachine or VirtualMachineInstance found" if vmi is None else f"no VM or VMI {vmi} found"
        refuse([f"{', '.join(paths)}: {missing}"], output)
    if len(subjects) > 1 and (option := "--status" if status else "--pod" if pod else "--diff" if other else ""):
        refuse([f"{option} is about one VM, and the files have {len(subjects)}: choose it with --vmi"], output)
    installed = next((sourced.object for sourced in objects if isinstance(sourced.object, KubeVirt)), None)
    with refusing(output, inputs.OptionFileError, LauncherError):
        sources = AddressSources(
            inputs.variables_in(env) if env else {},
            inputs.metadata_in(metadata) if metadata else None,
            inputs.pod_in(pod) if pod else None,
        )
        host = inputs.topology_in(topology) if topology else None
        compared = inputs.domain_in(other) if other else None
        release = KubeVirtAtHand.configured(installed, kubevirt).version
        request = DomainRequest(sources, release, dialect, host, cpus, validate, compared)
        if status:
            subjects = tuple(subject.with_status(inputs.device_status_in(status)) for subject in subjects)
        answers = [answer(subject, request) for subject in subjects]
    if output == "xml":
        _print(answers, None if other is None else str(other))
    else:
        members: DomainListJson = {"domains": [answer.to_json() for answer in answers]}
        print_output("DomainList", members, output)
    sys.exit(0 if all(answer.good for answer in answers) else 1)


def _is_named(subject: SubjectVm, name: str, namespace: str) -> bool:
    own, _, name = name.rpartition("/")
    return (subject.vmi.namespace, subject.vmi.name) == (own or namespace, name)


def _print(answers: Sequence[DomainAnswer], compared: str | None) -> None:
    """The domains or differences on standard output; on standard error what is wrong, and warnings."""
    for answer in answers:
        title = f"{answer.subject.place}: {answer.subject.title}"
        if answer.error is not None:
            say(f"error: {title}: {answer.error}", err=True)
        for fault in answer.invalid or ():
            say(f"error: {title}: libvirt's schema refuses the domain: {fault}", err=True)
        for warning in answer.warnings:
            say(f"warning: {title}: {warning}", err=True)
        if answer.differing is not None:
            say("\n".join(map(str, answer.differing)) or f"no difference from {compared} in host devices and placement")
        elif answer.made is not None:
            say(answer.made.domain_xml.rstrip("\n"))
