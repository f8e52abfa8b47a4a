"""docs/reasons: each reason that an explanation can have has a page, whose first example has it and whose second
fits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from virt_dra.allocator.errors import SELECTOR_ERROR
from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import read_objects
from virt_dra.cli.explain.pages import page, page_names
from virt_dra.controllers.beside_kubevirt.pod_creation import POD_NOT_CREATED
from virt_dra.controllers.deletion import TERMINATING
from virt_dra.controllers.devices.delivery import REASONS
from virt_dra.controllers.devices.outcomes import DEVICE_NOT_PUBLISHED
from virt_dra.controllers.keeping.plan import REASONS as KEEPING_REASONS
from virt_dra.controllers.operator.pending import CLAIMS_NOT_READY
from virt_dra.controllers.operator.profile_fit import PROFILE_INVALID
from virt_dra.controllers.profiles.problems import REASONS as PROBLEM_REASONS
from virt_dra.scheduling.claim_checks import CLAIM_REASONS
from virt_dra.scheduling.placement import NO_NODE
from virt_dra.scheduling.why.distance import NODE_REASONS
from virt_dra.scheduling.why.groups import group_text
from virt_dra.simulator.explaining.answer import FITS, answered
from virt_dra.simulator.explaining.state import ClusterState
from virt_dra.simulator.explaining.subject import find_subject

FOLDER: Final = Path(__file__).parents[3] / "docs" / "reasons"
PAGES: Final = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")
OF_VMS: Final = (
    POD_NOT_CREATED,
    TERMINATING,
    DEVICE_NOT_PUBLISHED,
    *REASONS,
    *PROBLEM_REASONS,
    PROFILE_INVALID,
    *KEEPING_REASONS,
)
WITHOUT_EXAMPLE: Final = {
    "ClaimBeingAllocated": "explanations are made between two attempts",
    "ClaimNotShareable": "its gate is off in a plain cluster",
    "FeatureDisabled": "explanations are made with the gates of a plain cluster",
    "GroupsIncompatible": "its gate is off in a plain cluster",
    "NodeError": "it comes with other reasons that say more",
    "NodeLacksFeature": "its gate is off in a plain cluster",
    "ClaimsNotReady": "the operator says it of several reasons",
    "NoNode": "explanations count nodes",
    "RequestUnsupported": "the API server refuses such claims",
    "TooManyDevices": "only prioritized lists come to it",
    **dict.fromkeys(OF_VMS, "it is about a VM's pod, not about claims and nodes"),
}
_EXAMPLE: Final = re.compile(r"^## (Before|After)$.*?^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _objects(text: str, where: str) -> list[TypedObject]:
    loaded = read_objects(text.encode(), where)
    assert loaded.problems == ()
    return [obj.object for obj in loaded.objects]


def _reasons(there: list[TypedObject]) -> tuple[str, set[str]]:
    """The verdict on what is called ``wanted``, and all reasons."""
    kind = "pod" if any(isinstance(obj, Pod) and obj.name == "wanted" for obj in there) else "claim"
    state = ClusterState.from_objects(there)
    answer = answered(find_subject(kind, "wanted", "default", state.model), state, lambda done, total: None)
    return answer.verdict, {answer.reason, *(miss.code for group in answer.groups for miss in group.reasons)}


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("HostPortTaken", "node-1: host port 8080/TCP is taken"),
        ("PodAffinityMismatch", "node-1: a pod that its anti-affinity excludes runs in the node's domain"),
        (
            "TopologySpreadMismatch",
            "node-1: one more pod in the node's domain would exceed maxSkew of a topology spread constraint",
        ),
    ],
)
def test_a_filter_that_looks_at_other_pods_says_it_in_words_for_one_node(reason: str, text: str) -> None:
    examples = dict(_EXAMPLE.findall((FOLDER / f"{reason}.md").read_text(encoding="utf-8")))
    state = ClusterState.from_objects(_objects(examples["Before"], "before"))
    answer = answered(find_subject("pod", "wanted", "default", state.model), state, lambda done, total: None)
    assert text in [group_text(group) for group in answer.groups]


@pytest.mark.parametrize("reason", [page for page in PAGES if page not in WITHOUT_EXAMPLE])
def test_the_example_has_the_reason_and_the_mended_one_fits(reason: str) -> None:
    examples = dict(_EXAMPLE.findall((FOLDER / f"{reason}.md").read_text(encoding="utf-8")))
    assert set(examples) == {"Before", "After"}
    verdict, reasons = _reasons(_objects(examples["Before"], "before"))
    assert verdict != FITS
    assert reason in reasons
    assert _reasons(_objects(examples["After"], "after"))[0] == FITS


def test_every_reason_has_a_page_in_the_index() -> None:
    assert sorted({*NODE_REASONS, *CLAIM_REASONS, *OF_VMS, CLAIMS_NOT_READY, SELECTOR_ERROR, NO_NODE}) == PAGES
    assert [
        page for page in PAGES if not _EXAMPLE.search((FOLDER / f"{page}.md").read_text(encoding="utf-8"))
    ] == sorted(WITHOUT_EXAMPLE)
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[(\w+)\]\((\w+)\.md\) \|", index, re.MULTILINE) == [(name, name) for name in PAGES]


def test_pages_are_found_in_the_package_whatever_their_case() -> None:
    assert set(PAGES) < set(page_names())
    assert page("deviceinuse") == (FOLDER / "DeviceInUse.md").read_text(encoding="utf-8")
    assert (page("not-enough-devices") or "").startswith("# not-enough-devices\n")
    assert page("README") is None
    assert page("../lint/request-name") is None
