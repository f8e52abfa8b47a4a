"""Asks real API servers what ``scenarios`` asks, and writes their answers to ``tests/cluster/memory/recorded``. See
README.md."""

from __future__ import annotations

import argparse
import http.client
import json
import ssl
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from devtools.upstream.apiserver.scenarios import Scenario, scenarios
from devtools.upstream.apiserver.steps import Json, normalized, prepared
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.scheme import all_kinds
from virt_dra.cluster.kinds import resource_of

RECORDED = Path(__file__).parents[3] / "tests" / "cluster" / "memory" / "recorded"
ASKED = tuple(kind for kind in all_kinds() if kind.KIND == "Pod" or resource_of(kind).group == "resource.k8s.io")
"""What scenarios make."""
CONTENT = {"merge": "application/merge-patch+json", "operations": "application/json-patch+json"}


class Server:
    """One API server on loopback, named by its port: one of servers.sh, with its token, unless ``context`` has a
    certificate of its user."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self._headers = {"Accept": "application/json"}
        if context is None:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self._headers["Authorization"] = "Bearer witness"
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: object = None, content: str = "application/json") -> tuple[int, Json]:
        text = None if body is None else json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        self._connection.request(method, path, text, {**self._headers, "Content-Type": content})
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())

    def answer(self, step: Json) -> Json:
        if step["verb"] == "none":
            return {"code": 0}
        method, path, body, content = request_of(step)
        code, reply = self.ask(method, path, body, content)
        if code >= 400:
            causes = [
                [cause.get("field", ""), cause.get("reason", ""), cause.get("message", "")]
                for cause in reply.get("details", {}).get("causes", ())
            ]
            return {
                "code": code,
                "reason": reply.get("reason", ""),
                "message": reply.get("message", ""),
                "causes": causes,
            }
        if step["verb"] == "list":
            return {"code": code, "names": [item["metadata"]["name"] for item in reply["items"]]}
        return {"code": code} if step["verb"] == "delete" else {"code": code, "object": reply}

    def forget(self, kinds: Iterable[type[TypedObject]] = ASKED) -> None:
        """Delete everything that scenarios with these kinds may have left behind."""
        for kind in kinds:
            resource = resource_of(kind)
            root = path_of(resource.api_version, resource.plural)
            for item in self.ask("GET", root)[1]["items"]:
                meta = item["metadata"]
                path = path_of(resource.api_version, resource.plural, meta.get("namespace", ""), meta["name"])
                if meta.get("finalizers"):
                    self.ask("PATCH", path, {"metadata": {"finalizers": None}}, CONTENT["merge"])
                self.ask("DELETE", f"{path}?gracePeriodSeconds=0")


def path_of(api_version: str, plural: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    parts = ["apis" if "/" in api_version else "api", api_version]
    if namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(plural)
    if name:
        parts.append(quote(name, safe=""))
    if subresource:
        parts.append(subresource)
    return "/" + "/".join(parts)


def request_of(step: Json) -> tuple[str, str, Any, str]:
    """Method, path, body and type of content."""
    verb, obj = step["verb"], step.get("object", {})
    kind = next(kind for kind in all_kinds() if (obj.get("kind") or step.get("kind")) == kind.KIND)
    resource = resource_of(kind)
    version = obj.get("apiVersion") or step.get("apiVersion") or resource.api_version
    meta = obj.get("metadata") if isinstance(obj.get("metadata"), dict) else {}
    namespace = (
        (meta.get("namespace") or step.get("namespace", "") or ("" if verb == "list" else "default"))
        if resource.namespaced
        else ""
    )
    name = meta.get("name") or step.get("name", "")

    def path(*parts: str) -> str:
        return path_of(version, resource.plural, namespace, *parts)

    match verb:
        case "create":
            return "POST", path(), obj, "application/json"
        case "update" | "updateStatus":
            return "PUT", path(name, "status" if verb == "updateStatus" else ""), obj, "application/json"
        case "patch":
            form = "merge" if "merge" in step else "operations"
            return "PATCH", path(name, step.get("subresource", "")), step[form], CONTENT[form]
        case "delete":
            preconditions = {key: step[key] for key in ("uid", "resourceVersion") if key in step}
            options = {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "gracePeriodSeconds": 0,
                "preconditions": preconditions,
            }
            return "DELETE", path(name), options, "application/json"
        case "list":
            query = {"labelSelector": step.get("labels", ""), "fieldSelector": step.get("fields", "")}
            return (
                "GET",
                f"{path()}?{urlencode({key: value for key, value in query.items() if value})}",
                None,
                "application/json",
            )
        case _:
            return "GET", path(name), None, "application/json"


def record(server: Server, scenario: Scenario, others: dict[str, Server]) -> list[Json]:
    """``others`` are asked where a step says so; they share what ``server`` stores."""
    raw: list[Json] = []
    for step in scenario[1]:
        raw.append(others.get(step.get("server", ""), server).answer(prepared(step, raw)))
    server.forget()
    return normalized(raw)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=16443, help="of the server with plain gates; see servers.sh")
    options.add_argument("--only", default="", help="record only scenarios whose name contains this, and print them")
    chosen = options.parse_args()
    plain, every, off = Server(chosen.port), Server(chosen.port + 1), Server(chosen.port + 4)
    for server in (plain, every, off):
        server.ask(
            "POST",
            "/api/v1/namespaces",
            {"metadata": {"name": "admin", "labels": {"resource.kubernetes.io/admin-access": "true"}}},
        )
        server.forget()
    by_group: dict[str, list[str]] = {}
    for scenario in scenarios():
        name = scenario[0]
        if chosen.only not in name:
            continue
        line: Json = {"id": name, "answers": record(every, scenario, {"off": off})}
        if not any("server" in step for step in scenario[1]):
            without_alpha, without_any = record(plain, scenario, {}), record(off, scenario, {})
            if without_alpha != line["answers"]:
                line["plain"] = without_alpha
            if without_any != without_alpha:
                line["off"] = without_any
        by_group.setdefault(name.partition("/")[0], []).append(
            json.dumps(line, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        )
    if chosen.only:
        sys.stdout.writelines(f"{line}\n" for lines in by_group.values() for line in lines)
        return
    RECORDED.mkdir(exist_ok=True)
    for group, lines in by_group.items():
        (RECORDED / f"{group}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write(f"{sum(map(len, by_group.values()))} scenarios recorded\n")


if __name__ == "__main__":
    main()
