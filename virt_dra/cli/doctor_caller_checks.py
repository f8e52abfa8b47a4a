"""Doctor's checks of the webhook's callers: whether they are authenticated, and who can connect. Pure: facts in, findings out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from virt_dra.cli.doctor_facts import INFO, OK, WARNING, Facts, Finding, Unknown
from webhooks.callers import LIMIT, REFUSE, TELL

GUIDE: Final = "docs/guides/callers.md"
_WEBHOOK: Final = "virt-dra-webhook"


def callers(facts: Facts) -> Iterator[Finding]:
    """Findings on whether the webhook authenticates callers (by its arguments), and whether its NetworkPolicy lets everybody connect."""
    arguments = _arguments(facts)
    if not facts.overlay or arguments is None:
        return
    where = f"Deployment {facts.namespace}/{_WEBHOOK}"
    verifies = _value(arguments, "--client-ca") is not None
    mode = _value(arguments, "--unverified-callers") or (REFUSE if verifies else LIMIT)
    if mode == TELL:
        message = "everybody who can connect to it learns what it knows of all namespaces (--unverified-callers=tell)"
        yield Finding("callers", WARNING, where, message, f"leave the argument out; see {GUIDE}")
    elif mode == REFUSE:
        yield Finding("callers", OK, where, "it answers API servers only, by their client certificate")
    else:
        message = (
            "it doesn't verify who asks, so it tells what VMs name that isn't there to nobody; virt-dra lint --live does. What VMs carry "
            "themselves is judged, and launcher pods get what they need"
        )
        advice = f"where the API server can be configured, have it present a client certificate: {GUIDE}"
        yield Finding("callers", INFO, where, message, advice)
    where = f"NetworkPolicy {facts.namespace}/{_WEBHOOK}"
    if isinstance(facts.network_policy, Unknown):
        yield Finding("callers-network", facts.network_policy.level, where, facts.network_policy.why, facts.network_policy.advice)
    elif facts.network_policy is not None and not _limits(facts.network_policy):
        message = "it lets everybody connect to port 8443"
        yield Finding(
            "callers-network", INFO, where, message, f"name the networks of your API servers: virt-dra install --api-server-cidr; {GUIDE}"
        )


def verifies_callers(facts: Facts) -> bool:
    return _value(_arguments(facts) or (), "--client-ca") is not None


def _arguments(facts: Facts) -> tuple[str, ...] | None:
    for deployment in () if isinstance(facts.deployments, Unknown) else facts.deployments:
        if deployment["metadata"]["name"] == _WEBHOOK:
            containers = deployment["spec"]["template"]["spec"]["containers"]
            return tuple(str(argument) for container in containers for argument in container.get("args") or ())
    return None


def _value(arguments: tuple[str, ...], option: str) -> str | None:
    """The value of an option, written with "=" or as the next argument; the last one counts, as on the command line."""
    found = None
    for index, argument in enumerate(arguments):
        if argument.startswith(f"{option}="):
            found = argument.partition("=")[2]
        elif argument == option and index + 1 < len(arguments):
            found = arguments[index + 1]
    return found


def _limits(policy: dict[str, object]) -> bool:
    spec = policy.get("spec")
    rules = spec.get("ingress") if isinstance(spec, dict) else None
    return all(rule.get("from") for rule in rules or () if any(port.get("port") == 8443 for port in rule.get("ports") or ()))
