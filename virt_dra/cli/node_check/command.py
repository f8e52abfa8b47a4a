"""``virt-dra node-check``: examines a node, and says what would stop a VM with devices on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from virt_dra.api.kubevirt_v1 import KubeVirt
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.reading.documents import DocumentError, read_objects
from virt_dra.cli.node_driver.policy_files import bounded_text, labels_of, policies_from, policy_file
from virt_dra.cli.shared.check_report import end_with
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.options import kubevirt_option, output_option
from virt_dra.cli.shared.output import refuse, refusing

EPILOG = """\b
Examples:
  virt-dra node-check                     of this node
  virt-dra node-check -q --node-policy examples/requests/node-policy.yaml    what is in the way of a policy's devices?
  kubectl get kubevirt -A -o yaml | virt-dra node-check -f -            does KubeVirt leave mediated devices alone?
  virt-dra node-check --host-root copy    of a copied machine: copy/sys, copy/proc, copy/lib/modules
  virt-dra node-check -o json | jq -r '.findings[] | select(.level == "error") | .message'

\b
It changes nothing and needs no root. In a pod: hostPID, and the host's / as a volume for --host-root.

\b
Exit codes: 0 neither warnings nor errors, 1 warnings, 2 errors, bad usage or no /sys.
"""


@click.command(name="node-check", epilog=EPILOG)
@shared("--host-root", detail="And /lib/modules.  [default: /]", default="")
@shared("--node-policy", "policy", "Examine what they publish, and say why other devices aren't.", type=policy_file)
@shared("--label", "labels", "For nodeSelectors of policies and of KubeVirt.", callback=labels_of)
@shared("--filename", "kubevirt_file", "The cluster's KubeVirt: does it remove mediated devices of others?",
        metavar="FILE", multiple=False, type=policy_file)  # fmt: skip
@kubevirt_option
@shared("--quiet", detail="Only warnings and errors.")
@output_option("text", "json", "yaml")
def command(
    host_root: str, policy: Path | None, labels: dict[str, str], kubevirt_file: Path | None,
    kubevirt: KubeVirtVersion | None, quiet: bool, output: str,
) -> None:  # fmt: skip
    """Examine this node: what would stop a VM with passed-through devices, and what to do about it.

    IOMMU and its groups, VFIO drivers and device nodes, KVM, huge pages, the limit of locked memory, devices that can't
    be reset, and with a policy the devices that it can't publish.
    """
    from node_driver.node_check.checks import examine_node
    from node_driver.node_check.facts import NodeExamination
    from node_driver.node_check.gathering import gather
    from node_driver.policy.deciding import published_set, wanted_vfs

    policies = None if policy is None else policies_from(policy, output)
    kubevirts = () if kubevirt_file is None else _kubevirts(kubevirt_file, output)
    with refusing(output, OSError):
        facts = gather(host_root.rstrip("/"))
    node = NodeExamination(facts, kubevirts=kubevirts, kubevirt_version=kubevirt, labels=labels or None)
    if policies is not None:
        published = published_set(facts.hardware, policies, labels)
        node = replace(node, published=published, wanted_vfs=wanted_vfs(facts.hardware, policies, labels))
    end_with(examine_node(node), output, quiet=quiet)


def _kubevirts(path: Path, output: str) -> tuple[KubeVirt, ...]:
    """Ends the process with 2 for a file without any."""
    with refusing(output, DocumentError):
        loaded = read_objects(bounded_text(path, output), str(path))
    kubevirts = tuple(item.object for item in loaded.objects if isinstance(item.object, KubeVirt))
    if loaded.problems or not kubevirts:
        refuse([str(problem) for problem in loaded.problems] or [f"{path}: it has no KubeVirt"], output)
    return kubevirts
