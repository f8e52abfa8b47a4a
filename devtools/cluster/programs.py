"""Where the programs of a control plane are, and what becomes of a test that lacks them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devtools import needs

VERSION = "1.37.1"
ETCD, API_SERVER, SCHEDULER, CONTROLLERS = "etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"
KUBECTL = "kubectl"
SCRIPT = Path(__file__).parents[2] / "tools" / "control-plane.sh"
_CACHE = Path("virt-dra/control-plane/1.37.1-3.6.16/bin")
ADVICE = (
    "no control plane 1.37.1: run tools/control-plane.sh (it needs Go), or name a "
    "folder with etcd and kube-apiserver in KUBEBUILDER_ASSETS"
)


def binary(name: str) -> Path | None:
    """Where a program is: in ``KUBEBUILDER_ASSETS``, else in the cache of ``tools/control-plane.sh``, else nowhere."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / _CACHE
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    folders = [Path(assets), cache] if assets else [cache]
    return next((folder / name for folder in folders if os.access(folder / name, os.X_OK)), None)


def require(*names: str) -> None:
    """Skip the test, with one line of advice, where programs are missing (etcd and kube-apiserver always count); with
    CI=true fail it."""
    needs.use("control_plane")
    missing = [name for name in (ETCD, API_SERVER, *names) if binary(name) is None]
    if missing:
        advice = f"{', '.join(missing)} missing: {ADVICE}"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(advice)
