"""The lines of kube-scheduler's configuration that make it ask the extender."""

from __future__ import annotations

from typing import Final

from virt_dra.api.wire import Json

WEIGHT: Final = 200
"""kube-scheduler multiplies priorities (0 to 10) by ten times this, and adds its plugins' scores, at most 1,400
together: they never outweigh the policy."""


def scheduler_configuration(url: str, *, seconds: float = 1.0, client: Json | None = None) -> Json:
    """A KubeSchedulerConfiguration. ``url``: of the extender; ``client``: tlsConfig, for one that speaks HTTPS."""
    extender: Json = {
        "urlPrefix": url,
        "prioritizeVerb": "prioritize",
        "weight": WEIGHT,
        "nodeCacheCapable": True,
        "ignorable": True,
        "httpTimeout": f"{seconds:g}s",
    }
    if client is not None:
        extender |= {"enableHTTPS": True, "tlsConfig": client}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**kind, "extenders": [extender]}
