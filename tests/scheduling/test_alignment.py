"""Which preferred alignments a VM's claims ask for, compared with a brute force over all devices of small clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from random import Random
from typing import Any, Final

import pytest

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.defaults import defaulted
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.lines import LineSurroundings
from virt_dra.api.resource_v1 import DeviceClass, ResourceSlice
from virt_dra.controllers.loops.claims import generated_claim
from virt_dra.model.cluster import ClusterModel
from virt_dra.scheduling.alignment import TRIED_MAX, AlignmentChoice, chosen_alignments

_ATTRIBUTES: Final = {"pcieRoot": "resource.kubernetes.io/pcieRoot", "numaNode": "resource.kubernetes.io/numaNode"}


@dataclass(frozen=True)
class AlignedCluster:
    """``devices``: by node, class and the values of the two attributes. ``profile``: its spec. ``line``: of the VM."""

    devices: tuple[tuple[str, str, str, int], ...]
    profile: dict[str, Any]
    line: str

    def chosen(self, asked: Sequence[bool] = ()) -> tuple[AlignmentChoice, list[bool]]:
        """The choice, and of each preferred alignment whether it is asked for. ``asked``: which were before."""
        profile = DeviceProfile.from_wire({"metadata": {"name": "p"}, "spec": self.profile})
        vmi = VirtualMachineInstance.from_wire(
            {"metadata": {"name": "vm", "namespace": "team", "annotations": {"virt-dra.io/devices": self.line}}}
        )
        admitted = LineSurroundings({"p": profile}).admitted(vmi)
        assert admitted.refusals == ()
        assert isinstance(admitted.vm, VirtualMachineInstance)
        entries = [(entry.name, entry.resource_claim_template_name) for entry in admitted.vm.spec.resource_claims]
        templates = {template.name: template for template in admitted.templates}
        pod = Pod.from_wire(
            {
                "metadata": {"name": "pod", "namespace": "team", "uid": "pod"},
                "spec": {
                    "containers": [],
                    "resourceClaims": [{"name": entry, "resourceClaimTemplateName": name} for entry, name in entries],
                },
                "status": {
                    "resourceClaimStatuses": [{"name": entry, "resourceClaimName": entry} for entry, _ in entries]
                },
            }
        )
        made = [(entry, defaulted(generated_claim(pod, entry, templates[name or ""]))) for entry, name in entries]
        claims = [claim.with_(metadata=claim.metadata.with_(name=entry, uid=entry)) for entry, claim in made]
        before = [alignment for alignment, own in zip(admitted.preferences, asked, strict=False) if own]
        choice = chosen_alignments(pod, claims, admitted.preferences, self.model(), asked=before)
        return choice, [alignment in choice.held for alignment in admitted.preferences]

    def model(self) -> ClusterModel:
        nodes = sorted({node for node, *_ in self.devices} | {"n1"})
        slices = [
            {
                "metadata": {"name": node},
                "spec": {
                    "driver": "d.example.com",
                    "nodeName": node,
                    "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                    "devices": [
                        {
                            "name": f"d{number}",
                            "attributes": {
                                "kind": {"string": kind},
                                _ATTRIBUTES["pcieRoot"]: {"string": root},
                                _ATTRIBUTES["numaNode"]: {"int": numa},
                            },
                        }
                        for number, (of, kind, root, numa) in enumerate(self.devices)
                        if of == node
                    ],
                },
            }
            for node in nodes
        ]
        return ClusterModel(
            (
                *(
                    Node.from_wire({"metadata": {"name": node}, "status": {"allocatable": {"pods": "10"}}})
                    for node in nodes
                ),
                *(ResourceSlice.from_wire(raw) for raw in slices),
                *(
                    DeviceClass.from_wire(
                        {
                            "metadata": {"name": kind},
                            "spec": {
                                "selectors": [
                                    {"cel": {"expression": f'device.attributes["d.example.com"].kind == "{kind}"'}}
                                ]
                            },
                        }
                    )
                    for kind in ("gpu", "nic")
                ),
            )
        )

    # --- by brute force ---

    def best(self) -> tuple[bool, list[bool]]:
        """Whether the VM fits somewhere, and of each preferred alignment of each copy whether it holds: the first of
        all outcomes in the order in which alignments count."""
        outcomes = self._all_outcomes()
        return (True, max(outcomes)) if outcomes else (False, [])

    def serves(self, asked: Sequence[bool]) -> bool:
        """Whether in some outcome all these alignments hold."""
        return any(
            all(holds for holds, wanted in zip(outcome, asked, strict=True) if wanted)
            for outcome in self._all_outcomes()
        )

    def _all_outcomes(self) -> list[list[bool]]:
        return [outcome for node in {of for of, *_ in self.devices} for outcome in self._outcomes(node)]

    def _outcomes(self, node: str) -> Iterator[list[bool]]:
        """Of every way to give the node's devices to the VM in which the required alignments hold."""
        copies = int(self.line.partition(" x ")[2] or 1)
        own = [device for device in self.devices if device[0] == node]
        kinds = [device["deviceClassName"] for device in self.profile["devices"]] * copies
        names = [device["name"] for device in self.profile["devices"]]
        for chosen in permutations(own, len(kinds)):
            if [kind for _, kind, *_ in chosen] != kinds:
                continue
            by_copy = [
                dict(zip(names, chosen[first : first + len(names)], strict=True))
                for first in range(0, len(chosen), len(names))
            ]
            held = [
                (
                    alignment,
                    len({device[2 if alignment["attribute"] == "pcieRoot" else 3] for device in _of(alignment, copy)})
                    == 1,
                )
                for alignment in self.profile["align"]
                for copy in by_copy
            ]
            if all(holds for alignment, holds in held if alignment.get("mode") != "Preferred"):
                yield [holds for alignment, holds in held if alignment.get("mode") == "Preferred"]


def _of(alignment: dict[str, Any], copy: dict[str, tuple[str, str, str, int]]) -> Sequence[tuple[str, str, str, int]]:
    return [copy[name] for name in alignment.get("devices") or copy]


def random_cluster(seed: int) -> AlignedCluster:
    chance = Random(seed)
    devices = tuple(
        (chance.choice(("n1", "n2")), chance.choice(("gpu", "gpu", "nic")), chance.choice("ab"), chance.choice((0, 1)))
        for _ in range(chance.randint(2, 7))
    )
    names = ["a", "b", "c"][: chance.choice((2, 2, 3))]
    wanted = [{"name": name, "deviceClassName": chance.choice(("gpu", "gpu", "nic"))} for name in names]
    align = [
        {
            "attribute": chance.choice(tuple(_ATTRIBUTES)),
            "mode": chance.choice(("Preferred", "Preferred", "Preferred", "Required")),
            **({"devices": chance.sample(names, 2)} if chance.random() < 0.6 else {}),
        }
        for _ in range(chance.choice((1, 2, 3)))
    ]
    line = "item=p x 2" if len(names) == 2 and chance.random() < 0.3 else "item=p"
    return AlignedCluster(devices, {"devices": wanted, "align": align}, line)


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_the_alignments_that_hold_are_those_of_a_brute_force(first: int) -> None:
    outcomes = Counter[str]()
    for seed in range(first, first + 100):
        cluster = random_cluster(seed)
        choice, asked = cluster.chosen()
        if not asked:
            continue
        fits, best = cluster.best()
        assert (choice.fits, asked) == ((True, best) if fits else (False, [False] * len(asked))), f"seed {seed}"
        outcomes["all" if all(asked) else "some" if any(asked) else "none" if fits else "nowhere"] += 1
    assert min(outcomes[outcome] for outcome in ("all", "some", "none", "nowhere")) > 0


@pytest.mark.slow
def test_what_was_chosen_before_stays_as_long_as_some_node_serves_it() -> None:
    outcomes = Counter[str]()
    for seed in range(400):
        cluster = random_cluster(seed)
        before = cluster.chosen()[1]
        if not any(before):
            continue
        left = random_cluster(seed + 1000).devices  # other devices: some were taken, others became free
        now = AlignedCluster(left, cluster.profile, cluster.line)
        fits, best = now.best()
        choice, asked = now.chosen(before)
        if now.serves(before):
            assert (choice.fits, asked) == (True, before), f"seed {seed}"
            outcomes["kept, as the best" if best == before else "kept, though others come first"] += 1
        else:
            assert (choice.fits, asked) == ((True, best) if fits else (False, [False] * len(asked))), f"seed {seed}"
            outcomes["chosen anew" if fits else "nowhere"] += 1
    assert len(outcomes) == 4, outcomes


ROOTS = (("n1", "gpu", "a", 0), ("n1", "nic", "b", 0), ("n2", "gpu", "a", 0), ("n2", "nic", "b", 1))
PAIR = {"devices": [{"name": "gpu", "deviceClassName": "gpu"}, {"name": "nic", "deviceClassName": "nic"}]}


@pytest.mark.parametrize(
    ("align", "line", "asked", "texts"),
    [
        ([{"attribute": "numaNode"}], "p", [True], ()),
        (
            [{"attribute": "pcieRoot"}, {"attribute": "numaNode"}],
            "p",
            [False, True],
            ("gpu and nic on different PCIe roots: no node has both free on one",),
        ),
        (
            [{"attribute": "d.example.com/kind"}],
            "vm=p",
            [False],
            ("vm-gpu and vm-nic with different d.example.com/kind: no node has both free with one",),
        ),
        ([{"attribute": "numaNode"}], "p x 2", [False, False], ()),  # fits nowhere: there is nothing to say of it
    ],
)
def test_what_is_given_up_is_said(
    align: list[dict[str, str]], line: str, asked: list[bool], texts: tuple[str, ...]
) -> None:
    preferred = [{**alignment, "mode": "Preferred"} for alignment in align]
    choice, held = AlignedCluster(ROOTS, {**PAIR, "align": preferred}, line).chosen()
    assert (held, choice.texts) == (asked, texts)


def test_an_earlier_alignment_that_became_possible_does_not_displace_what_was_chosen() -> None:
    align = [{"attribute": "pcieRoot", "mode": "Preferred"}, {"attribute": "numaNode", "mode": "Preferred"}]
    both = (*ROOTS, ("n2", "nic", "a", 1))  # n2 serves the first by now, n1 the second as before
    cluster = AlignedCluster(both, {**PAIR, "align": align}, "p")
    assert cluster.chosen()[1] == [True, False]
    assert cluster.chosen([False, True])[1] == [False, True]


def test_alignments_beyond_the_limit_are_given_up() -> None:
    align = [
        {"attribute": "pcieRoot", "mode": "Preferred"},
        *[{"attribute": "numaNode", "mode": "Preferred"}] * TRIED_MAX,
    ]
    choice, _ = AlignedCluster(ROOTS, {**PAIR, "align": align}, "p").chosen()
    assert (len(choice.held), len(choice.given_up)) == (TRIED_MAX - 1, 2)
