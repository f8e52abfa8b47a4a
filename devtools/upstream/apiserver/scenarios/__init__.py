"""What to ask an API server: scenarios, each a few requests in order, on names of their own.

A step is a request (see ../steps.py). ``base`` takes the object another step was answered with and ``change`` merges
into it, so that updates carry the uid and resourceVersion that the server in question gave. ``${0.metadata.uid}`` in a
text is such a value, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from devtools.upstream.apiserver.scenarios.building import Scenario
from devtools.upstream.apiserver.scenarios.claim_statuses import claim_statuses
from devtools.upstream.apiserver.scenarios.claims import claims, templates
from devtools.upstream.apiserver.scenarios.cluster_scoped import classes, pool_requests, taint_rules
from devtools.upstream.apiserver.scenarios.gates import gates
from devtools.upstream.apiserver.scenarios.pods import pods
from devtools.upstream.apiserver.scenarios.protocol import metadata, protocol, shapes
from devtools.upstream.apiserver.scenarios.slices import slices
from devtools.upstream.apiserver.scenarios.versions import versions

GROUPS = (
    claims,
    templates,
    claim_statuses,
    slices,
    classes,
    taint_rules,
    pool_requests,
    pods,
    metadata,
    protocol,
    shapes,
    versions,
    gates,
)


def scenarios() -> Iterator[Scenario]:
    for group in GROUPS:
        yield from group()
