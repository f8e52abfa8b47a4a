"""Reviews as values: what is asked of the API server, and what its answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cluster.kinds import resource_of
from virt_dra.model.kinds import READ
from virt_dra.report_server.viewers import (
    MOST_TOKEN,
    Viewer,
    access_review,
    is_allowed,
    is_token,
    resources_of,
    token_review,
    viewer_of,
)

USER = {"username": "ann", "uid": "u1", "groups": ["system:authenticated", "team"], "extra": {"scopes": ["a", "b"]}}
ANN = Viewer("ann", "u1", ("system:authenticated", "team"), {"scopes": ("a", "b")})


def test_a_viewer_must_be_allowed_each_kind_that_the_page_shows() -> None:
    assert [str(resource) for resource in resources_of(READ["report-server"].all)] == [
        "nodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "controllerrevisions.apps",
        "virtualmachineclusterinstancetypes.instancetype.kubevirt.io",
        "virtualmachineclusterpreferences.instancetype.kubevirt.io",
        "virtualmachineinstancetypes.instancetype.kubevirt.io",
        "virtualmachinepreferences.instancetype.kubevirt.io",
        "kubevirts.kubevirt.io",
        "virtualmachineinstances.kubevirt.io",
        "virtualmachines.kubevirt.io",
        "deviceclasses.resource.k8s.io",
        "devicetaintrules.resource.k8s.io",
        "resourceclaims.resource.k8s.io",
        "resourceclaimtemplates.resource.k8s.io",
        "resourceslices.resource.k8s.io",
        "storageclasses.storage.k8s.io",
        "deviceprofiles.virt-dra.io",
        "keeppolicies.virt-dra.io",
        "virtualmachineinstancedevices.virt-dra.io",
    ]


def test_a_token_is_asked_about_for_the_api_servers_own_audiences() -> None:
    assert token_review("t") == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "t"},
    }


@pytest.mark.parametrize(
    ("status", "viewer"),
    [
        ({"authenticated": True, "user": USER}, ANN),
        ({"authenticated": True, "user": {"username": "bob"}}, Viewer("bob", "", (), {})),
        ({"authenticated": False, "user": USER}, None),
        ({"authenticated": "true", "user": USER}, None),
        ({"authenticated": True, "user": USER, "error": "no"}, None),
        ({"authenticated": True, "user": {}}, None),
        ({"authenticated": True, "user": {"username": ""}}, None),
        ({"authenticated": True}, None),
        ({}, None),
        (None, None),
        ("authenticated", None),
    ],
)
def test_only_who_the_api_server_names_is_known(status: Any, viewer: Viewer | None) -> None:
    assert viewer_of({"status": status}) == viewer


def test_a_right_is_asked_for_with_everything_that_is_known_of_the_user() -> None:
    review = access_review(ANN, resource_of(ResourceClaim))
    assert review == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "ann",
            "uid": "u1",
            "groups": ["system:authenticated", "team"],
            "extra": {"scopes": ["a", "b"]},
            "resourceAttributes": {"verb": "list", "group": "resource.k8s.io", "resource": "resourceclaims"},
        },
    }


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        ({"allowed": True}, True),
        ({"allowed": True, "evaluationError": "a webhook didn't answer"}, True),
        ({"allowed": False}, False),
        ({"allowed": True, "denied": True}, False),
        ({"allowed": "true"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_what_is_not_said_to_be_allowed_is_not(status: Any, allowed: bool) -> None:
    assert is_allowed({"status": status}) is allowed


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("abc.def-_", True),
        ("", False),
        ("a b", False),
        ("a\n", False),
        ("ä", False),
        ("a" * MOST_TOKEN, True),
        ("a" * (MOST_TOKEN + 1), False),
    ],
)
def test_what_can_be_a_token(text: str, is_one: bool) -> None:
    assert is_token(text) is is_one
