"""Doctor's checks of the webhook's callers: whether they are authenticated, and who can connect. Pure: facts in,
findings out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from virt_dra.api.integration.check_findings import CheckFinding, CheckSubject
from virt_dra.doctor.facts import ClusterFacts, Unknown, items, unread
from webhooks.server.callers import LIMIT, REFUSE, TELL

GUIDE: Final = "docs/guides/callers.md"
_WEBHOOK: Final = "virt-dra-webhook"
_REVIEWS: Final = 8443


def callers(facts: ClusterFacts) -> Iterator[CheckFinding]:
    """Findings on whether the webhook authenticates callers (by its arguments), and whether its NetworkPolicy lets
    everybody connect."""
    arguments = _arguments(facts)
    if not facts.overlay or arguments is None:
        return
    subject = CheckSubject("callers", f"Deployment {facts.namespace}/{_WEBHOOK}")
    verifies = _value(arguments, "--client-ca") is not None
    mode = _value(arguments, "--unverified-callers") or (REFUSE if verifies else LIMIT)
    if mode == TELL:
        reveal = "its answers reveal objects of all namespaces to everybody who can connect (--unverified-callers=tell)"
        yield subject.warning(reveal, f"remove the argument; see {GUIDE}")
    elif mode == REFUSE:
        yield subject.ok("it answers only API servers, by their client certificates")
    else:
        message = (
            "without verified callers the webhook doesn't report missing templates, claims or classes at admission; "
            "virt-dra lint --live does. What VMs contain themselves is checked, and launcher pods get what they need"
        )
        yield subject.info(message, f"to change it, have the API server present a client certificate: see {GUIDE}")
    subject = CheckSubject("callers-network", f"NetworkPolicy {facts.namespace}/{_WEBHOOK}")
    if isinstance(facts.network_policy, Unknown):
        yield unread(subject, facts.network_policy, prefix="")
    elif facts.network_policy is not None and not _limits(facts.network_policy, _named_ports(facts)):
        yield subject.info(
            f"it lets everybody connect to port {_REVIEWS}",
            f"name the networks of your API servers: virt-dra install --api-server-cidr; {GUIDE}",
        )


def verifies_callers(facts: ClusterFacts) -> bool:
    return _value(_arguments(facts) or (), "--client-ca") is not None


def _arguments(facts: ClusterFacts) -> tuple[str, ...] | None:
    containers = _containers(facts)
    if containers is None:
        return None
    return tuple(str(argument) for container in containers for argument in container.get("args") or ())


def _named_ports(facts: ClusterFacts) -> frozenset[str]:
    """The names that the webhook's pods give to the port of reviews: a NetworkPolicy may use them in place of the
    number."""
    ports = [port for container in _containers(facts) or () for port in container.get("ports") or ()]
    return frozenset(str(port["name"]) for port in ports if port.get("containerPort") == _REVIEWS and "name" in port)


def _containers(facts: ClusterFacts) -> list[dict[str, Any]] | None:
    webhooks = (of for of in items(facts.deployments) if of["metadata"]["name"] == _WEBHOOK)
    return next((list(of["spec"]["template"]["spec"]["containers"]) for of in webhooks), None)


def _value(arguments: tuple[str, ...], option: str) -> str | None:
    """The value of an option, written with "=" or as the next argument; the last one counts, as on the command line."""
    value = None
    for index, argument in enumerate(arguments):
        if argument.startswith(f"{option}="):
            value = argument.partition("=")[2]
        elif argument == option and index + 1 < len(arguments):
            value = arguments[index + 1]
    return value


def _limits(policy: dict[str, Any], names: frozenset[str]) -> bool:
    """True if no rule lets every address connect to the port of reviews, which the pods call by these names."""
    spec = policy.get("spec") or {}
    if "Ingress" not in (spec.get("policyTypes") or ["Ingress"]):
        return False
    return not any(_open(rule) for rule in spec.get("ingress") or () if _concerns_reviews(rule, names))


def _concerns_reviews(rule: dict[str, Any], names: frozenset[str]) -> bool:
    ports = rule.get("ports")
    # No ports at all, or an empty list, means every port.
    return not ports or any(_includes_reviews(port, names) for port in ports)


def _includes_reviews(port: dict[str, Any], names: frozenset[str]) -> bool:
    if (port.get("protocol") or "TCP") != "TCP":
        return False
    first = port.get("port")
    if isinstance(first, int):
        return first <= _REVIEWS <= (port.get("endPort") or first)
    return first is None or first in names


def _open(rule: dict[str, Any]) -> bool:
    peers = rule.get("from")
    # No peers, or an empty list, means any peer; so does a network of every address, whatever else is listed.
    return not peers or any(str((peer.get("ipBlock") or {}).get("cidr", "")).endswith("/0") for peer in peers)
