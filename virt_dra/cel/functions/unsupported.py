"""Functions of Kubernetes' environment that this version checks but does not evaluate; using one is a compile error that names it."""

from __future__ import annotations

from virt_dra.cel.functions.registry import Library

library = Library()

_FORMATS = (
    "byte", "date", "datetime", "dns1035Label", "dns1035LabelPrefix", "dns1123Label", "dns1123LabelPrefix", "dns1123Subdomain",
    "dns1123SubdomainPrefix", "labelValue", "qualifiedName", "uri", "uuid",
)  # fmt: skip
_AUTHORIZER = "kubernetes.authorization."

library.declare(
    *(f"format.{name}() -> kubernetes.NamedFormat" for name in _FORMATS),
    "format.named(string) -> optional_type(kubernetes.NamedFormat)",
    "kubernetes.NamedFormat::validate(string) -> optional_type(list(string))",
    "url(string) -> kubernetes.URL",
    "isURL(string) -> bool",
    *(f"kubernetes.URL::{name}() -> string" for name in ("getScheme", "getHost", "getHostname", "getPort", "getEscapedPath")),
    "kubernetes.URL::getQuery() -> map(string, list(string))",
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
