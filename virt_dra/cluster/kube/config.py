"""Which configuration leads to the cluster: a kubeconfig, or the service account of the pod."""

from __future__ import annotations

import os
from pathlib import Path

from virt_dra.cluster.kube.access import Access
from virt_dra.cluster.kube.errors import ConnectionProblem
from virt_dra.cluster.kube.service_account import pod_account


async def found_access(kubeconfig: str | None, context: str | None) -> Access:
    """Raises :class:`ConnectionProblem` (NoConfiguration, BadConfiguration)."""
    for path, origin in _candidates(kubeconfig):
        if path:
            # Only here: the kubernetes package takes 10 MiB, which a process in a pod doesn't need.
            from virt_dra.cluster.kube.kubeconfig import kubeconfig_access

            return await kubeconfig_access(path, context, origin)
    if account := pod_account(os.environ):
        if context:
            raise ConnectionProblem(
                "NoConfiguration", f'a pod\'s service account has no contexts: "{context}" needs a kubeconfig'
            )
        return account
    raise ConnectionProblem(
        "NoConfiguration",
        "no cluster is configured: neither $KUBECONFIG nor ~/.kube/config is there, and this is no pod with a service "
        "account. Give --kubeconfig FILE or set KUBECONFIG",
    )


def _candidates(kubeconfig: str | None) -> tuple[tuple[str, str], ...]:
    """Path (or several, joined as in $KUBECONFIG; empty if there is none) and where it was named."""
    usual = Path(os.environ.get("HOME") or "~").expanduser() / ".kube" / "config"
    return (
        (kubeconfig or "", "given"),
        (os.environ.get("KUBECONFIG", ""), "$KUBECONFIG"),
        (str(usual) if usual.exists() else "", "default"),
    )
