"""``virt-dra render --jsonl``: from request to answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from tests.cli.jsonl.answers import members_of
from virt_dra.cli.main import cli

CLAIMS = [{"name": "c", "resourceClaimTemplateName": "t"}]
SPEC = {
    "resourceClaims": CLAIMS,
    "domain": {"devices": {"gpus": [{"name": "g", "claim": {"name": "c", "request": "r"}}]}},
}
PLUGIN = {"domain": {"devices": {"gpus": [{"name": "g", "deviceName": "x/y"}]}}}


def _fragment(claims: list[Any], resource_claims: list[Any], counts: dict[str, str] | None = None) -> dict[str, Any]:
    compute = {"name": "compute", "claims": claims, "limits": counts or {}, "requests": counts or {}}
    return {"resourceClaims": resource_claims, "containers": [compute], "error": None}


def _refused(error: str) -> dict[str, Any]:
    return {"resourceClaims": [], "containers": [], "error": error}


RENDERED = _fragment([{"name": "c", "request": "r"}], CLAIMS)


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        pytest.param({"vmi": {"spec": SPEC}}, RENDERED, id="a VMI"),
        pytest.param({"spec": SPEC}, RENDERED, id="a bare spec"),
        pytest.param({"vmi": {"kind": "VirtualMachine", "spec": {"template": {"spec": SPEC}}}}, RENDERED, id="a VM"),
        pytest.param(
            {"spec": SPEC, "gates": {"DynamicResourceAllocation": False}}, _fragment([], CLAIMS), id="gate off"
        ),
        pytest.param({"spec": SPEC, "kubevirt": "1.5"}, _fragment([], []), id="before claims existed"),
        pytest.param({"spec": PLUGIN}, _fragment([], [], {"x/y": "1"}), id="a plugin device"),
        pytest.param(
            {"spec": PLUGIN, "permittedHostDevices": {"mediatedDevices": [{"resourceName": "x/y"}]}},
            _fragment([], [], {"x/y": "1"}),
            id="a permitted device",
        ),
        pytest.param(
            {"spec": PLUGIN, "permittedHostDevices": {}},
            _refused("GPU x/y is not permitted in permittedHostDevices configuration"),
            id="a device that is not permitted",
        ),
        pytest.param(
            {"spec": {"domain": {"resources": {"limits": {"x/y": "\ud800"}}}}},
            _refused(
                r'line 1: spec.domain.resources.limits[x/y]: "\ud800" is not a quantity: '
                r"write a number with an optional unit such as "
                '"500m", "2", "1.5" or "10Gi"'
            ),
            id="half of a character where a quantity should be",
        ),
        pytest.param({}, _refused("line 1: give either vmi (an object) or spec (a bare VMI spec)"), id="nothing"),
        pytest.param(
            {"vmi": {"spec": []}}, _refused("line 1: vmi.spec: must be an object, not a list"), id="a malformed VMI"
        ),
        pytest.param(
            {"spec": {}, "permittedHostDevices": {"usb": 1}},
            _refused("line 1: permittedHostDevices.usb: must be a list, not an integer"),
            id="malformed permitted devices",
        ),
    ],
)
def test_answer(request_: dict[str, Any], want: dict[str, Any]) -> None:
    result = CliRunner().invoke(cli, ["render", "--jsonl"], input=json.dumps({"id": 7, **request_}))
    assert result.exit_code == 0, result.output
    assert members_of(result.stdout, "RenderAnswer") == {"id": 7, **want}


def test_help_shows_examples() -> None:
    result = CliRunner().invoke(cli, ["render", "--help"])
    assert result.exit_code == 0
    assert "virt-dra render --jsonl examples/requests/render.jsonl" in result.stdout
