"""Where the programs of a control plane are, and what becomes of a test that lacks them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devtools import needs

VERSION = "1.37.1"
ETCD, API_SERVER, SCHEDULER, CONTROLLERS = "etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"
KUBECTL, CLASSIC_DRIVER = "kubectl", "classic-driver"
CLASSIC = ("1.30.14", "1.31.14")
"""The releases of classic DRA; their programs run beside the etcd of :data:`VERSION`."""
SCRIPT = Path(__file__).parents[2] / "tools" / "control-plane.sh"
ADVICE = (
    "no control plane 1.37.1: run tools/control-plane.sh (it needs Go), or name a "
    "folder with etcd and kube-apiserver in KUBEBUILDER_ASSETS"
)


def binary(name: str, version: str = VERSION) -> Path | None:
    """Where a program is: in ``KUBEBUILDER_ASSETS`` (of :data:`VERSION` only), else in the cache of
    ``tools/control-plane.sh``, else nowhere."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "virt-dra/control-plane"
    if version in CLASSIC and name != ETCD:
        folders = [caches / version / "bin"]
    else:
        assets = os.environ.get("KUBEBUILDER_ASSETS")
        folders = [*([Path(assets)] if assets else []), caches / f"{VERSION}-3.6.16" / "bin"]
    return next((folder / name for folder in folders if os.access(folder / name, os.X_OK)), None)


def require_classic(version: str) -> None:
    """Skip the test, with one line of advice, where a control plane of a release of classic DRA isn't complete; in CI,
    too, which doesn't build them."""
    needs.use("control_plane")
    if any(binary(name, version) is None for name in (ETCD, API_SERVER, SCHEDULER, CONTROLLERS, CLASSIC_DRIVER)):
        pytest.skip(f"no control plane {version}: run tools/control-plane.sh {version} (it needs Go)")


def require(*names: str) -> None:
    """Skip the test, with one line of advice, where programs are missing (etcd and kube-apiserver always count); with
    CI=true fail it."""
    needs.use("control_plane")
    missing = [name for name in (ETCD, API_SERVER, *names) if binary(name) is None]
    if missing:
        advice = f"{', '.join(missing)} missing: {ADVICE}"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(advice)
