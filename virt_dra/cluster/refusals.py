"""The API server's refusals, worded as it words them."""

from __future__ import annotations

import json
from collections.abc import Iterable

from pydantic_core import PydanticSerializationError

from virt_dra.api.go_text import quoted
from virt_dra.api.meta import TypedObject
from virt_dra.api.wire import WireError
from virt_dra.cluster.kinds import ApiResource
from virt_dra.cluster.port import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    StatusCause,
    TooLarge,
)

SIZE_LIMIT = 3 * 1024 * 1024
"""The limit of a request's body, in bytes."""

STALE = "the object has been modified; please apply your changes to the latest version and try again"


def not_found(resource: ApiResource, name: str) -> NotFound:
    return NotFound(f"{resource} {quoted(name)} not found")


def no_such_subresource() -> NotFound:
    """The refusal of a subresource that a kind doesn't have, and of a kind whose feature gate is off."""
    return NotFound("the server could not find the requested resource")


def already_exists(resource: ApiResource, name: str) -> AlreadyExists:
    return AlreadyExists(f"{resource} {quoted(name)} already exists")


def still_being_deleted(resource: ApiResource, name: str) -> AlreadyExists:
    return AlreadyExists(f"object is being deleted: {already_exists(resource, name)}")


def no_unique_name(resource: ApiResource, name: str) -> AlreadyExists:
    """The refusal of an object for which every name made of generateName was taken."""
    return AlreadyExists(
        f"{resource} {quoted(name)} already exists, the server was not able to generate a unique name for the object"
    )


def conflict(resource: ApiResource, name: str, why: str = STALE) -> Conflict:
    return Conflict(f"Operation cannot be fulfilled on {resource} {quoted(name)}: {why}")


def uid_differs(resource: ApiResource, namespace: str, name: str, wanted: str, stored: str) -> Conflict:
    """An update of an object that was deleted and recreated since it was read, in the words of the server's storage."""
    key = "/".join(filter(None, ("/registry", resource.plural, namespace, name)))
    precondition = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {stored}"
    return conflict(
        resource,
        name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {precondition}",
    )


def deletion_precondition(
    resource: ApiResource, name: str, field: str, wanted: str, stored: str, hint: str
) -> Conflict:
    """A deletion whose precondition (``field``: ``UID`` or ``ResourceVersion``) doesn't hold. (Names the kind.)"""
    return Conflict(
        f"Operation cannot be fulfilled on {resource.group_kind} {quoted(name)}: the {field} in the precondition "
        f"({wanted}) does not match the {field} in record ({stored}). The object might have been {hint}"
    )


def invalid(subject: str, name: str, causes: Iterable[StatusCause]) -> Invalid:
    """``subject`` is a group kind. Equal faults are named once."""
    distinct = tuple(dict.fromkeys(causes))
    texts = tuple(f"{cause.field}: {cause.message}" for cause in distinct)
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return Invalid(f"{subject} {quoted(name)} is invalid: {listed}", distinct)


def version_required(resource: ApiResource, name: str) -> Invalid:
    """C-13.2. (Here the API server names the resource, not the kind.)"""
    fault = StatusCause(
        "metadata.resourceVersion", "FieldValueInvalid", "Invalid value: 0: must be specified for an update"
    )
    return invalid(str(resource), name, (fault,))


def forbidden(resource: ApiResource, name: str, why: str) -> Forbidden:
    return Forbidden(f"{resource} {quoted(name)} is forbidden: {why}")


def too_large(size: int) -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {SIZE_LIMIT}, the object has {size} bytes")


def too_old(version: int, oldest: int) -> Gone:
    return Gone(f"too old resource version: {version} ({oldest})")


def bad_patch(detail: str) -> Invalid:
    """JSON patch operations that can't be applied to the object. The API server gives no details; we do."""
    cause = StatusCause("", "UnexpectedServerResponse", detail)
    return Invalid(f"the server rejected our request due to an error in our request: {detail}", (cause,))


def patched_shape(resource: ApiResource, name: str, error: WireError) -> Invalid:
    """A patch whose result no longer has the shape of the kind."""
    return invalid(
        resource.group_kind, name, (StatusCause(path, "FieldValueTypeInvalid", text) for path, text in error.problems)
    )


def nameless(resource: ApiResource) -> Invalid:
    return invalid(
        resource.group_kind,
        "",
        (StatusCause("metadata.name", "FieldValueRequired", "Required value: name or generateName is required"),),
    )


def renamed(name: str, renamed_to: str) -> BadRequest:
    """A patch that changes or removes the name."""
    if not renamed_to:
        return BadRequest(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    return BadRequest(f"the name of the object ({renamed_to}) does not match the name on the URL ({name})")


def immutable(resource: ApiResource, name: str, field: str, value: str) -> Invalid:
    return invalid(
        resource.group_kind,
        name,
        (StatusCause(field, "FieldValueInvalid", f"Invalid value: {quoted(value)}: field is immutable"),),
    )


def other_namespace() -> BadRequest:
    return BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def check_size(obj: TypedObject) -> None:
    """Raises :class:`TooLarge` for an object beyond :data:`SIZE_LIMIT`."""
    try:
        size = len(obj.model_dump_json(by_alias=True, exclude_unset=True).encode())
    except PydanticSerializationError:  # lone surrogates, which JSON can smuggle in, are no UTF-8
        size = len(json.dumps(obj.to_wire()))
    if size > SIZE_LIMIT:
        raise too_large(size)


def check_identity(resource: ApiResource, name: str, patched: object) -> None:
    """Raises :class:`Invalid` if a patch made another kind of object, :class:`BadRequest` if one without apiVersion.
    The kind may be missing, as on the API server."""
    if not isinstance(patched, dict):
        raise bad_patch("a patch must leave an object")
    if patched.get("apiVersion") in (None, ""):
        raise renamed(name, "")
    for field, word, expected in (("apiVersion", "API version", resource.api_version), ("kind", "kind", resource.kind)):
        if patched.get(field) not in (None, "", expected):
            detail = f"the {word} in the data ({patched.get(field)}) does not match the expected {word} ({expected})"
            raise invalid("", "", (StatusCause("patch", "FieldValueInvalid", f"Invalid value: {detail}"),))


def unreadable_version(text: str) -> ApiError:
    """The refusal of an update whose resourceVersion isn't a number, which the server answers as an internal error."""
    return ApiError(f"strconv.ParseUint: parsing {quoted(text)}: invalid syntax")


def is_version(text: str) -> bool:
    """True for a resourceVersion in the form that this cluster and etcd use."""
    return text.isascii() and text.isdigit() and len(text) <= 20


def parsed_version(text: str) -> int:
    """The resourceVersion as a number. Raises :class:`BadRequest`."""
    if not is_version(text):
        raise BadRequest(f"invalid resource version: {quoted(text)} is not a number")
    return int(text)
