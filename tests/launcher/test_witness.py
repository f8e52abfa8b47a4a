"""A witness that is not there is said to be missing, and never passes for one that agreed."""

from __future__ import annotations

import pytest

from tests import libvirt_witness


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_missing_tools_skip_with_advice_and_fail_in_ci(monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(libvirt_witness, "TOOLS", ("no-such-tool",))

    with pytest.raises(outcome, match=r"^no-such-tool missing: apt-get install libvirt-daemon .* qemu-system-x86$"):
        libvirt_witness.require()


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
@pytest.mark.parametrize("uri", libvirt_witness.URIS)
def test_a_domain_that_libvirt_refuses_is_no_silent_success(uri: str) -> None:
    with pytest.raises(libvirt_witness.Refused, match=r"missing|unknown|could not"):
        libvirt_witness.define("<domain type='kvm'><uuid>8a05ad83-3472-497d-8631-8142f31460e8</uuid></domain>", uri)
