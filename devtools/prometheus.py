"""Prometheus itself, which collects from processes that run beside a test."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

from devtools.cluster.ports import free_port
from devtools.go_tools import go_tool


@dataclass(frozen=True)
class Prometheus:
    port: int

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=30):
                return True
        except (urllib.error.URLError, ConnectionError):
            return False

    def ask(self, path: str, **parameters: str) -> Any:
        """The ``data`` of an answer. Raises HTTPError for a query that isn't one."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.loads(answer.read())["data"]

    def values(self, query: str) -> list[float]:
        """The values of the series of an instant query."""
        return [float(series["value"][1]) for series in self.ask("query", query=query)["result"]]

    def rules(self) -> list[Any]:
        """All rules, with what their last evaluation came to."""
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]


@contextmanager
def prometheus(
    folder: Path, ports: Mapping[str, int], rules: Mapping[str, Any], until: Callable[[Callable[[], bool]], object]
) -> Iterator[Prometheus]:
    """One that collects each second from these ports of loopback, by job, and evaluates rules (the content of a rule
    file). ``until`` waits for it to be ready."""
    program = go_tool("prometheus", "prometheus")
    (folder / "rules.yaml").write_text(yaml.safe_dump(dict(rules)))
    jobs = [{"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]} for name, port in ports.items()]
    configuration = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": jobs,
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
    running = Prometheus(free_port())
    command = [
        str(program),
        f"--config.file={folder}/prometheus.yaml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{running.port}",
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            until(running.ready)
            yield running
        finally:
            process.kill()
            process.wait()
