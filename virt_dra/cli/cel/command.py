"""``virt-dra cel``: what a CEL expression says of devices, for people (slices in files) and for programs (JSON
lines)."""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING, Final

import click

from virt_dra.api.feature_gates import PLAIN, FeatureGates
from virt_dra.api.go_text import visible
from virt_dra.api.resource_v1 import Device, DeviceAttribute, ResourceSlice
from virt_dra.api.wire import Json, WireError
from virt_dra.cel import (
    COST_LIMIT,
    STORED_EXPRESSIONS,
    CompiledSelector,
    CompileError,
    DerivedAttribute,
    Environment,
    compile_derived_attribute,
    compile_selector,
    new_expressions,
)
from virt_dra.cli.cel.report import evaluate
from virt_dra.cli.jsonl.lines import answer_stream
from virt_dra.cli.jsonl.members import BadLine, member, switches, under
from virt_dra.cli.shared.cluster_options import ClusterChoice
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.file_input import sourced_of_files
from virt_dra.cli.shared.gate_options import gates_epilog, gates_option
from virt_dra.cli.shared.live_input import live_options, live_sourced
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.options import DEFAULT_NAMESPACE, file_inputs, output_option
from virt_dra.cli.shared.output import print_output, refuse, refusing
from virt_dra.cluster.duplicates import applied
from virt_dra.matching.matcher import readable

if TYPE_CHECKING:
    from virt_dra.cli.documents.output_types import SelectorAnswerJson

MEMBERS: Final = ("expression", "device", "features", "new", "derived")
NOTHING: Final[SelectorAnswerJson] = {
    "compile_error": None,
    "cost_estimate": None,
    "result": None,
    "error": None,
    "cost": None,
}
"""The answer's members besides ``id``. Members without a value are null."""


_FEATURES: Final = ("consumable", "list")
"""What the expressions of a new object may use by the gates."""


def answer(request: Json) -> SelectorAnswerJson:
    """The answer to a request, whose members :data:`HELP` lists. Raises BadLine for a request that is wrong."""
    text: str | None = member(request, "expression", str)
    if text is None:
        raise BadLine("expression: required, a string")
    environment = _environment_of(request)
    derived: bool = member(request, "derived", bool, False)
    driver, device = _device_of(request)
    try:
        compiled = _compile(text, environment, derived=derived)
    except CompileError as error:
        return {**NOTHING, "compile_error": error.message}
    return _evaluated(compiled, driver, device)


def _compile(expression: str, environment: Environment, *, derived: bool) -> CompiledSelector | DerivedAttribute:
    return compile_derived_attribute(expression, environment) if derived else compile_selector(expression, environment)


def _evaluated(compiled: CompiledSelector | DerivedAttribute, driver: str, device: Device) -> SelectorAnswerJson:
    compiled_alone: SelectorAnswerJson = {**NOTHING, "cost_estimate": compiled.cost_estimate}
    given = readable(driver, device)
    if isinstance(given, str):
        return {**compiled_alone, "error": given}
    examined = compiled.examine(given)
    if examined.error is not None:
        return {**compiled_alone, "error": examined.error, "cost": examined.cost}
    result = examined.value.to_wire() if isinstance(examined.value, DeviceAttribute) else examined.value
    return {**compiled_alone, "result": result, "cost": examined.cost}


def _environment_of(request: Json) -> Environment:
    """``new``: that of new expressions by ``features`` (a missing one is off; without the object all are on), else of
    stored ones."""
    gates = switches(request, _FEATURES) or dict.fromkeys(_FEATURES, True)
    if not member(request, "new", bool, False):
        return STORED_EXPRESSIONS
    return new_expressions(consumable_capacity=gates["consumable"], list_attributes=gates["list"])


def _device_of(request: Json) -> tuple[str, Device]:
    """The driver and the device in the member ``device``; missing parts are empty. Raises BadLine, or WireError with
    the path."""
    raw: Json = member(request, "device", dict, {})
    try:
        driver: str = member(raw, "driver", str, "")
    except BadLine as error:
        raise BadLine(f"device.{error}") from None
    try:
        return driver, Device.from_wire({key: value for key, value in raw.items() if key != "driver"})
    except WireError as error:
        raise under("device", error) from None


# --- for people ---

EPILOG = """\b
Examples:
  virt-dra cel 'device.driver == "gpu.example.com"' -f examples/gpu-pci
  virt-dra cel 'device.attributes["gpu.example.com"].model.startsWith("RTX")' -f examples/gpu-pci -o json
  virt-dra cel 'device.driver == "gpu.example.com"' --live -o name
  kubectl get resourceslices -o yaml |
    virt-dra cel 'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("40Gi"))' -f -
  virt-dra cel --derived 'device.attributes["gpu.amd.com"].numaNode / 2' -f examples/driver-amd
  virt-dra cel --new --feature-gates DRAListTypeAttributes=true 'device.driver.includes("gpu")'   would it be accepted?
  echo '{"id": 1, "expression": "device.driver == \\"d\\"", "device": {"driver": "d"}}' | virt-dra cel --jsonl

\b
Exit codes: 0 a device matches and none failed (--derived: none failed; without -f: it compiles), 1 no device matches or
  evaluating failed on one, 2 the expression is refused, bad usage or unreadable input.
"""
EPILOG += f"\n{gates_epilog()}\n"

HELP = """Evaluate a CEL expression on devices: which match, and why one failed.

EXPR is a device selector, as in DeviceClasses and claims; the devices are those of the ResourceSlices in -f, or of a
cluster with --live. Without both the expression is only compiled. Of many devices, those with the same result share a
line, with a sample of them; -o name lists all that match.

With --jsonl, EXPR is a file of requests (- or nothing: standard input), one JSON object per line, each answered before
the next is read:

\b
  id          any value; the answer repeats it
  expression  the CEL expression
  device      driver, allowMultipleAllocations, attributes, capacity, as in a ResourceSlice
  features    consumable, list: the gates DRAConsumableCapacity, DRAListTypeAttributes, true or false; a missing one is
              off, without features all are on. They matter for new expressions only.
  new         true: compile as the API server does for a new object; else as the scheduler does, with every feature on
  derived     true: the expression is a derived attribute, not a selector

The answer: id, compile_error, cost_estimate, result (true or false; for a derived attribute, the attribute), error,
cost. Members without a value are null. """


@click.command(name="cel", help=HELP, epilog=EPILOG)
@click.argument("expression", metavar="[EXPR]", required=False)
@file_inputs("ResourceSlices; - is standard input.")
@live_options
@output_option("text", "name", "json", "yaml")
@shared("--verbose", detail="A line for each device, however many there are.")
@shared("--quiet", detail="Only the counts.")
@click.option(
    "--derived", is_flag=True, help="EXPR is a derived attribute, not a selector: show its value for each device."
)
@click.option(
    "--new",
    is_flag=True,
    help="Compile as the API server does for a new object, by its gates, and check the estimated cost.",
)
@gates_option("With --new; DRAConsumableCapacity and DRAListTypeAttributes matter.")
@shared("--jsonl")
def command(
    expression: str | None, paths: tuple[str, ...], live: ClusterChoice | None, output: str, verbose: bool, quiet: bool,
    derived: bool, new: bool, feature_gates: FeatureGates | None, jsonl: bool,
) -> None:  # fmt: skip
    if verbose and quiet:
        raise click.UsageError("-v and -q exclude each other")
    if jsonl:
        if paths or live or derived or new or feature_gates:
            raise click.UsageError(
                "--jsonl goes with a file of requests only; each request contains what the options say"
            )
        requests: IO[bytes] = click.File("rb").convert(expression or "-", None, click.get_current_context())
        answer_stream(requests, "SelectorAnswer", answer, NOTHING, MEMBERS)
        return
    if expression is None:
        raise click.UsageError(
            "name an expression, e.g. virt-dra cel 'device.driver == \"gpu.example.com\"' -f slices.yaml"
        )
    if feature_gates and not new:
        raise click.UsageError(
            "--feature-gates goes with --new: an expression that is already stored may use every feature"
        )
    if any("\ud800" <= character <= "\udfff" for character in expression):
        raise click.UsageError("the expression is not UTF-8")
    gates = feature_gates or PLAIN
    of_new = new_expressions(consumable_capacity=gates.consumable_capacity, list_attributes=gates.list_type_attributes)
    environment = of_new if new else STORED_EXPRESSIONS
    with refusing(output, CompileError):
        compiled = _compile(expression, environment, derived=derived)
    if new and compiled.cost_estimate is not None and compiled.cost_estimate > COST_LIMIT:
        refuse([f"too complex: the estimated cost {compiled.cost_estimate} exceeds the limit of {COST_LIMIT}"], output)
    report = evaluate(compiled, _slices(paths, live, output))
    if output == "text":
        say("\n".join(map(visible, report.lines(every_device=verbose, devices=not quiet))))
    elif output == "name":
        for device in report.devices:
            if device.matches:
                say(visible(device.device))
    else:
        print_output("SelectorReport", report.to_json(), output)
    sys.exit(0 if report.good else 1)


def _slices(paths: tuple[str, ...], live: ClusterChoice | None, output: str) -> list[ResourceSlice]:
    """The ResourceSlices of the files and the cluster; other objects may stand among them. Ends the command if there
    are none, or a file can't be read."""
    of_files = sourced_of_files(paths, output)
    of_cluster = live_sourced(live, "cel", DEFAULT_NAMESPACE, output)[0] if live else []
    once = applied((*of_cluster, *of_files), DEFAULT_NAMESPACE)
    slices = [sourced.object for sourced in once.objects if isinstance(sourced.object, ResourceSlice)]
    if live and not slices:
        refuse(["the cluster has no ResourceSlice: is a DRA driver running there? virt-dra doctor looks"], output)
    if paths and not slices:
        refuse([f"{', '.join(paths)}: no ResourceSlice found; name the file that has one"], output)
    return slices
