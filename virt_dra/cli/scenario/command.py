"""``virt-dra scenario``: plays scenarios of the control loops on the embedded cluster or on a real one, and compares
answers."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import click

from virt_dra.api.counting import counted
from virt_dra.api.feature_gates import FeatureGates
from virt_dra.api.reading.document_error import DocumentError
from virt_dra.api.reading.documents import ReadProblem, read_documents
from virt_dra.api.wire import Json
from virt_dra.cli.documents.heads import HEAD, output_document
from virt_dra.cli.jsonl.lines import opened_requests, parse_request, readable
from virt_dra.cli.jsonl.members import BadLine, internal_error
from virt_dra.cli.shared.cluster_options import ClusterChoice, cluster_options
from virt_dra.cli.shared.console import progress, say
from virt_dra.cli.shared.file_input import content_of_file
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.options import file_inputs, output_option
from virt_dra.cli.shared.output import json_text, print_output, refuse
from virt_dra.cluster.files import read_file
from virt_dra.cluster.port import ApiError
from virt_dra.simulator.scenario.comparing import differences
from virt_dra.simulator.scenario.embedded_target import play_embedded
from virt_dra.simulator.scenario.gates import not_embedded
from virt_dra.simulator.scenario.player import Play
from virt_dra.simulator.scenario.reading import ScenarioError, read_scenario
from virt_dra.simulator.scenario.scenario import Scenario
from virt_dra.simulator.scenario.symbols import NoSuchSymbol

HELP = """Play scenarios of the control loops and print the states that they lead to.

A scenario gives objects and steps (apply, delete, patch, bind, run, finish, stop, device-status, driver, wait, settle,
observe); the answer has the requests that the cluster refused and its states in a normal form, in which generated names
are symbols. The format is in docs/spec/scenarios.md; docs/guides/scenarios.md shows how to write one. FILEs hold one or
many, as YAML documents or JSON (- is standard input).

On the embedded cluster time is virtual: ten minutes pass at once, and a scenario has one answer. --live --kubeconfig
FILE plays on a real cluster, which must be empty, with the feature gates that a scenario names; what it made there is
taken away afterwards. With kubernetes: "1.26" to "1.31" a scenario is about classic DRA of that release. The drivers
that it describes are part of the embedded cluster, and can't be started on another: with --live leave drivers out, and
start a driver of your own there.

With --jsonl: one scenario per line in, one answer per line out, in order: name, refusals, states, and unsettled if the
cluster did not come to rest; a scenario that can't be played is answered with name and error. """

EPILOG = """\b
Examples:
  virt-dra scenario examples/requests/scenario.yaml
  virt-dra scenario examples/requests/scenario.yaml -o json
  virt-dra scenario examples/requests/scenario.yaml --expect examples/requests/scenario.answers.jsonl
  virt-dra scenario examples/requests/classic-scenario.yaml                               classic DRA of 1.30
  virt-dra scenario examples/requests/scenario.yaml --live --kubeconfig out/kubeconfig    of make cluster KUBEVIRT=none
  virt-dra scenario --jsonl < examples/requests/scenarios.jsonl

\b
Exit codes: 0 all were played (and are as expected), 1 an answer differs or a scenario could not be played to its
  end, 2 bad usage or input. --jsonl: 0, or 2 for unreadable input.
"""


@dataclass(frozen=True)
class Played:
    """A scenario with its answer, or why it has none. ``differences`` from the expected answer; None if none was
    expected."""

    scenario: Scenario
    answer: Json | None
    problem: str = ""
    differences: tuple[str, ...] | None = None

    @property
    def good(self) -> bool:
        return self.answer is not None and not self.differences

    def to_json(self) -> Json:
        shown: Json = self.answer if self.answer is not None else {"name": self.scenario.name, "error": self.problem}
        return shown | ({"differences": list(self.differences)} if self.differences else {})


@click.command(name="scenario", help=HELP, epilog=EPILOG)
@file_inputs("Scenarios; - is standard input.", "FILE")
@shared("--live", detail="Scenarios are played on it; name it with --kubeconfig or --context.")
@cluster_options
@click.option("--on", metavar="embedded|KUBECONFIG", hidden=True, help="As none, or --live --kubeconfig KUBECONFIG.")
@click.option("--expect", metavar="FILE", help="Answers (JSON lines, or of -o json), found by name; shows differences.")
@shared("--jsonl", detail="A request is a scenario; from FILE or standard input.")
@output_option("text", "json", "yaml")
def command(
    paths: tuple[str, ...], live: bool, cluster: ClusterChoice, on: str | None, expect: str | None, jsonl: bool,
    output: str,
) -> None:  # fmt: skip
    if on is not None:
        if live or cluster.given:
            raise click.UsageError("--on says the same as --live with --kubeconfig: give one of them")
        live = on != "embedded"
        cluster = ClusterChoice(kubeconfig=on if live else None)
    if live != cluster.given:
        raise click.UsageError(
            "--live and the --kubeconfig or --context of the cluster go together: "
            "what is played makes and removes objects there"
        )
    where = cluster if live else None
    # Retries are part of a play, and no message to the user.
    logging.getLogger("virt_dra").addHandler(logging.NullHandler())
    if jsonl:
        if len(paths) > 1 or expect is not None:
            raise click.UsageError("--jsonl reads one file, or standard input, and compares nothing")
        _answer_lines(paths[0] if paths else "-", where)
        return
    if not paths:
        raise click.UsageError("name the FILE of a scenario (- is standard input)")
    scenarios = _read(paths, output)
    wanted = _expected(expect, output) if expect is not None else None
    played: list[Played] = []
    with progress("playing scenarios") as report:
        for number, scenario in enumerate(scenarios):
            report(number, len(scenarios))
            played.append(_compared(_played(scenario, where), wanted))
    if output == "text":
        for answer in played:
            _show(answer)
    else:
        answers = [answer.to_json() for answer in played]
        print_output("ScenarioReport", {"scenarios": answers}, output)
    sys.exit(0 if all(answer.good for answer in played) else 1)


# --- input --------------------------------------------------------------------------------------------------------


def _read(paths: Sequence[str], output: str) -> list[Scenario]:
    """All scenarios of the files, or the end of the command with every fault of all."""
    scenarios: list[Scenario] = []
    problems: list[str] = []
    for path in paths:
        try:
            text = read_file(path)
            if isinstance(text, ReadProblem):
                problems.append(str(text))
                continue
            documents = read_documents(text, "standard input" if path == "-" else path)
        except DocumentError as error:
            problems.append(str(error))
            continue
        for document in documents:
            try:
                scenarios.append(read_scenario(document.raw))
            except ScenarioError as error:
                faults = (f"{place}: {message}" if place else message for place, message in error.problems)
                problems += (f"{document.source}: {fault}" for fault in faults)
    names = [scenario.name for scenario in scenarios]
    problems += [f"two scenarios are called {name}" for name in dict.fromkeys(names) if names.count(name) > 1]
    if problems:
        refuse(problems, output)
    if not scenarios:
        refuse([f"{', '.join(paths)}: no scenario"], output)
    return scenarios


def _expected(path: str, output: str) -> Mapping[str, Json]:
    try:
        answers = _answers(content_of_file(path, output))
    except (BadLine, RecursionError) as error:
        refuse([f"{path}: {error}"], output)
    return {str(answer.get("name")): answer for answer in answers}


def _answers(text: bytes) -> list[Json]:
    """JSON lines, or what ``-o json`` printed. Raises BadLine."""
    if text.lstrip()[:1] == b"{" and text.split(b"\n", 1)[0].strip() == b"{":
        scenarios = parse_request(text).get("scenarios")
        if not isinstance(scenarios, list) or not all(isinstance(scenario, dict) for scenario in scenarios):
            raise BadLine("no answers: must be JSON lines, or what -o json printed")
        return scenarios
    answers = [parse_request(line) for line in text.splitlines() if line.strip()]
    return [{name: value for name, value in answer.items() if name not in HEAD} for answer in answers]


# --- playing ------------------------------------------------------------------------------------------------------


def _played(scenario: Scenario, where: ClusterChoice | None) -> Played:
    """Never raises for what a scenario or a cluster may do."""
    if where is None and (gates := not_embedded(scenario.gate_texts)):
        say(f"{scenario.name}: the embedded cluster does not have {', '.join(gates)}; played without", err=True)
    try:
        answer = play_embedded(scenario) if where is None else asyncio.run(_on_server(scenario, where))
    except (NoSuchSymbol, ApiError, RuntimeError) as error:
        return Played(scenario, None, str(error))
    except Exception as fault:  # noqa: BLE001 - a fault of ours in one scenario is reported; the others are still played
        return Played(scenario, None, internal_error(fault))
    return Played(scenario, answer)


async def _on_server(scenario: Scenario, choice: ClusterChoice) -> Json:
    """Raises RuntimeError for a cluster that can't be used."""
    # Here, since its import takes a third of a second.
    from virt_dra.cluster.kube.cluster import ConnectionProblem, connect
    from virt_dra.cluster.kube.decoding import parsed
    from virt_dra.cluster.kube.limits import ClientLimits
    from virt_dra.cluster.kube.transport import KubeRequest
    from virt_dra.doctor.gather import enabled_features
    from virt_dra.simulator.scenario.server_target import server_target

    try:
        async with connect(choice.kubeconfig, choice.context, limits=ClientLimits(qps=0, attempts=1)) as cluster:
            if scenario.kubernetes:
                _check_release(scenario, parsed(await cluster.transport.request(KubeRequest("GET", "/version"))))
            else:
                _check_gates(scenario, enabled_features(await cluster.metrics_text()))
            async with server_target(cluster, scenario) as target:
                return await Play(scenario, target).perform()
    except ConnectionProblem as error:
        raise RuntimeError(str(error)) from None


def _check_release(scenario: Scenario, version: Json) -> None:
    release = f"{version.get('major')}.{version.get('minor')}"
    if release != scenario.kubernetes:
        raise RuntimeError(f"the scenario is about Kubernetes {scenario.kubernetes}, and the cluster is {release}")


def _check_gates(scenario: Scenario, enabled: Mapping[str, bool]) -> None:
    wanted = [part.partition("=") for part in str(scenario.gates or FeatureGates()).split(",")]
    other = [f"{gate}={value}" for gate, _, value in wanted if gate in enabled and enabled[gate] != (value == "true")]
    if other:
        raise RuntimeError(f"the cluster's feature gates differ from the scenario's, which wants {', '.join(other)}")


def _compared(played: Played, wanted: Mapping[str, Json] | None) -> Played:
    if wanted is None or played.answer is None:
        return played
    expected = wanted.get(played.scenario.name)
    if expected is None:
        return Played(played.scenario, played.answer, differences=("no answer of this name is expected",))
    return Played(played.scenario, played.answer, differences=tuple(differences(expected, played.answer)))


# --- output -------------------------------------------------------------------------------------------------------


def _show(played: Played) -> None:
    name = played.scenario.name
    if played.answer is None:
        say(f"{name}: could not be played: {played.problem}")
        return
    if played.differences is not None:
        number = counted(len(played.differences), "difference")
        say(f"{name}: {number if played.differences else 'as expected'}")
        for line in played.differences:
            say(f"  {line}")
        return
    say(f"{name}:" + (" (did not settle)" if played.answer.get("unsettled") else ""))
    for refusal in played.answer["refusals"]:
        say(f"  step {refusal['step']} refused: {refusal['code']} {refusal['reason']}: {refusal['message']}")
    for label, state in played.answer["states"].items():
        say(f"  {label}:")
        for line in _lines(state):
            say(f"    {line}")


def _lines(state: Json) -> Iterator[str]:
    """A line for each object, and for each Event."""
    for kind, objects in state.items():
        if kind == "events":
            for about, type_, reason, message in objects:
                yield f"event {about}: {type_} {reason}" + (f": {message}" if message else "")
            continue
        for symbol, kept in objects.items() if isinstance(objects, dict) else ():
            yield f"{kind} {symbol}: {json.dumps(kept, ensure_ascii=False)}"


def _answer_lines(path: str, where: ClusterChoice | None) -> None:
    with opened_requests(path) as scenarios:
        for number, line in enumerate(readable(scenarios, "scenarios"), 1):
            if line.strip():
                click.echo(json_text(output_document("ScenarioAnswer", _answer(number, line, where))))
                sys.stdout.flush()


def _answer(number: int, line: bytes, where: ClusterChoice | None) -> Json:
    name: object = None
    try:
        raw = parse_request(line)
        name = raw.get("name")
        return _played(read_scenario(raw), where).to_json()
    except RecursionError:
        problem = "the JSON is nested too deeply"
    except (BadLine, ScenarioError) as error:
        problem = str(error)
    return {"name": name if isinstance(name, str) else None, "error": f"line {number}: {problem}"}
