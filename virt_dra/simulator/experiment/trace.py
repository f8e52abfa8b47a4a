"""Traces of GPU clusters in the CSV columns of the FGD paper's data (USENIX ATC 2023), as experiments. A GPU is a
device with a consumable capacity of 1000, of which tasks that share it take thousandths; ``gpu_spec`` is a selector on
the model (``A|B``: either). Columns may come in any order; a list may lack those that aren't needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import isnan
from random import Random
from typing import Final

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from virt_dra.model.cluster import ClusterModel
from virt_dra.scheduling.policies.placer import VmShape
from virt_dra.simulator.experiment.csv_input import read_csv
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.model import Arrival, Experiment

DRIVER: Final = "gpu.trace.example"
CLASS: Final = "gpu"
FULL_LOAD: Final = 1.3
"""``until-full``: tasks arrive until they ask for this multiple of the cluster's GPUs, as in the paper's figures."""

_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_TASK_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_TIME_COLUMNS = ("creation_time", "deletion_time")
_WHOLE_GPU = 1000
_MOST_GPUS = 128
"""Devices of one ResourceSlice."""
_PODS_PER_NODE = 1000
"""The traces have no limit of pods."""
_PER_INFLATED_SECOND = 1.0


@dataclass(frozen=True, slots=True)
class Task:
    """One row of the tasks."""

    name: str
    cpu_milli: int
    memory_mib: int
    num_gpu: int
    gpu_milli: int
    models: tuple[str, ...]
    created: float | None
    deleted: float | None

    @property
    def gpus(self) -> int:
        """Thousandths of GPUs."""
        return self.num_gpu * self.gpu_milli


def read_trace(
    nodes: Iterable[str],
    tasks: Iterable[str],
    nodes_name: str,
    tasks_name: str,
    *,
    inflate: float | None = None,
    seed: int = 0,
) -> Experiment:
    """The experiment of two CSV files, given as lines. ``inflate``: tasks, drawn by the seed, arrive until they ask for
    this multiple of the cluster's GPUs, and stay; None: each arrives and leaves when it did. Raises BadExperiment."""
    nodes_listed, slices = _cluster(nodes, nodes_name)
    gpus = sum(len(slice_.spec.devices) for slice_ in slices) * _WHOLE_GPU
    listed = read_tasks(tasks, tasks_name, timed=inflate is None)
    if not listed:
        raise BadExperiment(f"{tasks_name}: has no task; give at least one row behind the columns")
    shape_of = _shapes()
    if inflate is None:
        arrivals = _as_it_was(listed, shape_of)
    else:
        if not any(task.gpus for task in listed):
            raise BadExperiment(
                f"{tasks_name}: no task asks for a GPU, so that tasks never ask "
                f"for {inflate:g} times the cluster's GPUs"
            )
        arrivals = list(_inflated(listed, gpus * inflate, shape_of, Random(seed)))
    device_class = DeviceClass.from_wire(
        {"metadata": {"name": CLASS}, "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}}
    )
    model = ClusterModel([*nodes_listed, *slices, device_class])
    return Experiment(model, nodes_listed, arrivals, timed=inflate is None, unit="GPUs")


def _inflated(
    tasks: Sequence[Task], wanted: float, shape_of: Callable[[Task], VmShape], random: Random
) -> Iterator[Arrival]:
    """All tasks in a drawn order, then more of them, drawn one by one; one arrives each second."""
    order = list(tasks)
    random.shuffle(order)
    asked, number = 0, 0
    while asked < wanted:
        task = order[number] if number < len(order) else random.choice(tasks)
        yield Arrival(number * _PER_INFLATED_SECOND, shape_of(task), f"{task.name}-{number}")
        asked += task.gpus
        number += 1


def _as_it_was(tasks: Sequence[Task], shape_of: Callable[[Task], VmShape]) -> list[Arrival]:
    timed = [(task.created or 0.0, number, task) for number, task in enumerate(tasks)]
    begin = min(created for created, _, _ in timed)
    return [
        Arrival(
            created - begin,
            shape_of(task),
            f"{task.name}-{number}",
            None if task.deleted is None else task.deleted - created,
        )
        for created, number, task in sorted(timed, key=lambda entry: entry[:2])
    ]


def _cluster(lines: Iterable[str], name: str) -> tuple[tuple[Node, ...], tuple[ResourceSlice, ...]]:
    nodes: list[Node] = []
    slices: list[ResourceSlice] = []
    seen: set[str] = set()
    for row in _rows(lines, name, _NODE_COLUMNS):
        serial = row.text("sn")
        if not serial:
            raise row.error("sn", "must not be empty")
        if serial in seen:
            raise row.error("sn", f"{serial!r} is the name of another node already")
        seen.add(serial)
        cpu, memory = row.number("cpu_milli"), row.number("memory_mib")
        amounts = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": str(_PODS_PER_NODE)}
        nodes.append(
            Node.from_wire({"metadata": {"name": serial}, "status": {"allocatable": amounts, "capacity": amounts}})
        )
        count = row.number("gpu", most=_MOST_GPUS)
        if count:
            slices.append(_slice(serial, count, row.text("model")))
    if not nodes:
        raise BadExperiment(f"{name}: has no node; give at least one row behind the columns")
    return tuple(nodes), tuple(slices)


def _slice(node: str, count: int, model: str) -> ResourceSlice:
    whole = str(_WHOLE_GPU)
    policy = {"default": whole, "validRange": {"min": "1", "max": whole, "step": "1"}}
    devices = [
        {
            "name": f"gpu-{number}",
            "allowMultipleAllocations": True,
            "attributes": {"model": {"string": model}},
            "capacity": {"share": {"value": whole, "requestPolicy": policy}},
        }
        for number in range(count)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return ResourceSlice.from_wire({"metadata": {"name": f"{node}-gpus"}, "spec": spec})


def read_tasks(lines: Iterable[str], name: str, *, timed: bool) -> list[Task]:
    """The tasks of a trace. ``timed``: the times count, and must make sense."""
    return [_task(row, timed=timed) for row in _rows(lines, name, (*_TASK_COLUMNS, *(_TIME_COLUMNS if timed else ())))]


def _task(row: _Row, *, timed: bool) -> Task:
    count, milli = row.number("num_gpu", most=_MOST_GPUS), row.number("gpu_milli", most=_WHOLE_GPU)
    if count and not milli:
        raise row.error("gpu_milli", "must be 1 to 1000 for a task with a GPU")
    if count > 1 and milli != _WHOLE_GPU:
        raise row.error("gpu_milli", f"must be {_WHOLE_GPU} for a task with several GPUs, which takes them whole")
    created = deleted = None
    if timed:
        created, deleted = row.time("creation_time"), row.time("deletion_time")
        if created is None:
            raise row.error("creation_time", "is required; or give --inflate, which doesn't use times")
        if deleted is not None and deleted < created:
            raise row.error("deletion_time", f"is before creation_time: {deleted:g} < {created:g}")
    models = tuple(model.strip() for model in row.text("gpu_spec").split("|") if model.strip())
    memory, cpu = row.number("memory_mib"), row.number("cpu_milli")
    return Task(
        row.text("name") or f"line-{row.line}", cpu, memory, count, milli if count else 0, models, created, deleted
    )


def _shapes() -> Callable[[Task], VmShape]:
    """A function that returns the shape of a task: one object for all tasks that ask for the same."""

    @cache
    def shape(cpu: int, memory: int, count: int, milli: int, models: tuple[str, ...]) -> VmShape:
        requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        pod = Pod.from_wire({"spec": {"containers": [{"name": "task", "resources": {"requests": requests}}]}})
        wanted = f"{count} GPU" if milli == _WHOLE_GPU or not count else f"{milli}/1000 GPU"
        name = f"{wanted}{' of ' + ' or '.join(models) if models else ''}, {cpu}m cpu, {memory}Mi"
        return VmShape(name, pod, (claim(count, milli, models),) if count else ())

    @cache
    def claim(count: int, milli: int, models: tuple[str, ...]) -> ResourceClaim:
        exactly: dict[str, object] = {
            "deviceClassName": CLASS,
            "allocationMode": "ExactCount",
            "count": count,
            "capacity": {"requests": {"share": str(milli)}},
        }
        if models:
            listed = ", ".join("'" + model.replace("\\", "\\\\").replace("'", "\\'") + "'" for model in models)
            exactly["selectors"] = [{"cel": {"expression": f"device.attributes['{DRIVER}'].model in [{listed}]"}}]
        return ResourceClaim.from_wire(
            {
                "metadata": {"name": "gpu", "namespace": "trace"},
                "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
            }
        )

    return lambda task: shape(
        task.cpu_milli, task.memory_mib, task.num_gpu, task.gpu_milli, task.models if task.num_gpu else ()
    )


class _Row:
    """One row of a CSV file."""

    def __init__(self, file: str, line: int, values: Mapping[str, str | None]) -> None:
        self._file = file
        self.line = line
        self._values = values

    def text(self, column: str) -> str:
        return (self._values.get(column) or "").strip()

    def number(self, column: str, most: int = 2**53) -> int:
        """A whole number; absent: 0."""
        value = self._float(column)
        if value is None:
            return 0
        if value != int(value) or not 0 <= value <= most:
            raise self.error(column, f"must be a whole number from 0 to {most}, is {self.text(column)!r}")
        return int(value)

    def time(self, column: str) -> float | None:
        value = self._float(column)
        if value is not None and value < 0:
            raise self.error(column, f"must not be negative, is {self.text(column)!r}")
        return value

    def _float(self, column: str) -> float | None:
        text = self.text(column)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            raise self.error(column, f"must be a number, is {text[:40]!r}") from None
        if isnan(value):
            raise self.error(column, f"must be a number, is {text[:40]!r}; leave it empty if there is none")
        if not -(2**63) < value < 2**63:
            raise self.error(column, f"must be a number of usual size, is {text[:40]!r}")
        return value

    def error(self, column: str, problem: str) -> BadExperiment:
        return BadExperiment(f"{self._file}:{self.line}: {column}: {problem}")


def _rows(lines: Iterable[str], name: str, columns: Sequence[str]) -> Iterator[_Row]:
    for line, row in read_csv(lines, name, columns):
        yield _Row(name, line, row)
