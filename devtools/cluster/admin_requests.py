"""What tests ask of a real API server as its admin: requests of their own, namespaces, nodes. Methods block."""

from __future__ import annotations

import contextlib
import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import urllib3

Json = dict[str, Any]

NODE_CAPACITY = {"cpu": "64", "memory": "512Gi", "pods": "500", "ephemeral-storage": "1Ti"}

WAIT_SECONDS = 60.0
POLL_SECONDS = 0.05
MOST_CONNECTIONS = 4


class ControlPlaneError(RuntimeError):
    """A server that doesn't start or answer; the text ends with what it logged last."""


class RequestError(RuntimeError):
    """The API server refused a request of this module's own."""

    def __init__(self, status: int, message: str, causes: tuple[Json, ...] = ()) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message
        self.causes = causes
        """Of the Status that the server answered: ``{"reason", "message", "field"}`` each."""


class AdminRequests:
    """Connections to an API server, as many as threads ask at once, up to :data:`MOST_CONNECTIONS`. One that the server
    closed while it was idle is opened anew."""

    _connections: urllib3.HTTPSConnectionPool

    def _connect(self, port: int, context: ssl.SSLContext) -> urllib3.HTTPSConnectionPool:
        """``context`` has the admin's certificate. The connections are to be closed by the caller."""
        self._connections = urllib3.HTTPSConnectionPool(
            "127.0.0.1",
            port,
            maxsize=MOST_CONNECTIONS,
            block=True,
            timeout=WAIT_SECONDS,
            retries=False,
            ssl_context=context,
        )
        return self._connections

    def request(
        self, method: str, path: str, body: object = None, content: str = "application/json", *, accept: str = ""
    ) -> Json:
        """One request of the admin, made again while the server says that it can't be served yet (429).

        Raises :class:`RequestError`; OSError if the server can't be reached. For any thread.
        """
        text = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content, "Accept": accept or "application/json"}
        end = time.monotonic() + WAIT_SECONDS
        while True:
            status, reported = self._asked(method, path, text, headers)
            if status != 429 or time.monotonic() > end:
                break
            time.sleep(POLL_SECONDS)
        if status >= 400:
            raise RequestError(status, _message(reported), _causes(reported))
        answer: Json = json.loads(reported or b"{}")
        return answer

    def merge(self, path: str, patch: Json) -> Json:
        """Patches an object by a JSON merge patch. Raises as :meth:`request` does."""
        return self.request("PATCH", path, patch, "application/merge-patch+json")

    def _asked(self, method: str, path: str, text: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Sends a request once; before that the pool checks whether the server has closed the connection
        (kube-apiserver: after 90 s)."""
        try:
            response = self._connections.urlopen(method, path, body=text, headers=headers)
            return response.status, response.data
        except urllib3.exceptions.HTTPError as error:
            raise ConnectionError(str(error)) from error

    def create_namespace(self, prefix: str = "test-", labels: Mapping[str, str] | None = None) -> str:
        """A new namespace with its ServiceAccount ``default``; answers its name."""
        metadata = {"generateName": prefix, "labels": dict(labels or {})}
        made = self.request(
            "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        )
        name: str = made["metadata"]["name"]
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        self._create(f"/api/v1/namespaces/{name}/serviceaccounts", account)
        return name

    def delete_namespace(self, name: str) -> None:
        """With all that is in it, at once, whatever finalizers say; also where no namespace controller runs."""
        with _tolerating(404):
            self.request("DELETE", f"/api/v1/namespaces/{name}")
            for path in self._namespaced_resources():
                self._empty(path.format(namespace=name))
        with _tolerating(404, 409):
            self.request(
                "PUT",
                f"/api/v1/namespaces/{name}/finalize",
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
            )

    def create_node(self, name: str, labels: Mapping[str, str] | None = None) -> str:
        """A node that takes pods: admission marks a new one not ready, which only a kubelet takes back; answers its
        name."""
        node = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "status": {
                "capacity": NODE_CAPACITY,
                "allocatable": NODE_CAPACITY,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }
        self.request("POST", "/api/v1/nodes", node)
        self.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
        return name

    def wait_until_established(self, definition: str) -> None:
        """Until the kind of a CustomResourceDefinition is served. Raises :class:`ControlPlaneError`."""
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}"
        plural, _, group = definition.partition(".")
        definition_ = self.request("GET", path)
        served = f"/apis/{group}/{definition_['spec']['versions'][0]['name']}/{plural}"
        self._wait(lambda: self._answers(served), f"{definition} isn't served")

    def wait_until_gone(self, path: str) -> None:
        """Until a path answers 404. Raises :class:`ControlPlaneError`."""
        self._wait(lambda: not self._answers(path), f"{path} is still there")

    def _answers(self, path: str) -> bool:
        try:
            self.request("GET", path)
        except RequestError as error:
            if error.status not in (404, 503):  # 503: a kind is on its way
                raise
            return False
        return True

    def _wait(self, condition: Callable[[], bool], problem: str) -> None:
        end = time.monotonic() + WAIT_SECONDS
        while not condition():
            if time.monotonic() > end:
                raise ControlPlaneError(f"{problem} after {WAIT_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)

    def _create(self, path: str, body: Json) -> None:
        with _tolerating(409):
            self.request("POST", path, body)

    def _namespaced_resources(self) -> Iterator[str]:
        """Paths of what can be deleted by collection; every resource in one of its versions."""
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        for root in ("/api", "/apis"):
            for group in self.request("GET", root, accept=accept)["items"]:
                name = group["metadata"].get("name", "")
                seen: set[str] = set()
                for version in group["versions"]:
                    base = f"{root}/{name}/{version['version']}" if name else f"{root}/{version['version']}"
                    for resource in version.get("resources", ()):
                        plural = resource["resource"]
                        if (
                            resource["scope"] == "Namespaced"
                            and "deletecollection" in resource["verbs"]
                            and plural not in seen
                        ):
                            seen.add(plural)
                            yield f"{base}/namespaces/{{namespace}}/{plural}"

    def _empty(self, path: str) -> None:
        with _tolerating(404, 405):
            listed = self.request(
                "DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
            )
            for item in listed.get("items", ()):
                if not item["metadata"].get("finalizers"):
                    continue
                with _tolerating(404):
                    free = {"metadata": {"finalizers": None}}
                    self.merge(f"{path}/{item['metadata']['name']}", free)

    def allows(
        self, user: str, groups: Sequence[str], verb: str, resource: str, *, group: str = "", namespace: str = ""
    ) -> bool:
        """Whether RBAC allows it already: the authorizer learns of new roles and bindings a moment after they were
        made."""
        attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace}
        review = {"spec": {"user": user, "groups": list(groups), "resourceAttributes": attributes}}
        answer = self.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])


def _message(answer: bytes) -> str:
    """The message of an error: that of a Status, or plain text for an unknown path."""
    try:
        return str(json.loads(answer).get("message", ""))
    except ValueError:
        return answer.decode(errors="replace").strip()


def _causes(answer: bytes) -> tuple[Json, ...]:
    try:
        return tuple((json.loads(answer).get("details") or {}).get("causes") or ())
    except ValueError:
        return ()


@contextlib.contextmanager
def _tolerating(*statuses: int) -> Iterator[None]:
    try:
        yield
    except RequestError as error:
        if error.status not in statuses:
            raise
