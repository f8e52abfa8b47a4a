"""The authorizer library: declared as in Kubernetes (L-2.8), but device selectors have no value of its types."""

from __future__ import annotations

from virt_dra.cel.functions.registry import Library

library = Library()

_AUTHORIZER = "kubernetes.authorization."

library.declare(
    f"{_AUTHORIZER}Authorizer::path(string) -> {_AUTHORIZER}PathCheck",
    f"{_AUTHORIZER}Authorizer::group(string) -> {_AUTHORIZER}GroupCheck",
    f"{_AUTHORIZER}Authorizer::serviceAccount(string, string) -> {_AUTHORIZER}Authorizer",
    f"{_AUTHORIZER}GroupCheck::resource(string) -> {_AUTHORIZER}ResourceCheck",
    *(
        f"{_AUTHORIZER}ResourceCheck::{name}(string) -> {_AUTHORIZER}ResourceCheck"
        for name in ("subresource", "namespace", "name", "fieldSelector", "labelSelector")
    ),
    f"{_AUTHORIZER}PathCheck::check(string) -> {_AUTHORIZER}Decision",
    f"{_AUTHORIZER}ResourceCheck::check(string) -> {_AUTHORIZER}Decision",
    f"{_AUTHORIZER}Decision::allowed() -> bool",
    f"{_AUTHORIZER}Decision::errored() -> bool",
    f"{_AUTHORIZER}Decision::error() -> string",
    f"{_AUTHORIZER}Decision::reason() -> string",
)
