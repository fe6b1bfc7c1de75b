"""Measures what a round on Kubernetes costs API server and controller, and checks that finished jobs cost nothing.

    python bench/cluster.py [--jobs 1000] [--most 50] [--json]

A controller plays a plan through the tests' API server. Pods are fakes; drivers are scripts that write a finished job
to the volume at once. Prints the API calls for each job by verb; and, when 10, 50 and 90 % of the jobs are finished,
what one look of the controller costs while nothing happens: API calls, milliseconds (the median of several), the most
memory meanwhile, and the memory kept from one look to the next. Exits with status 1 if one of these grows.
"""

import argparse
import gc
import json
import statistics
import sys
import tempfile
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # the test cluster is in the tests

from orchestrator import logs
from orchestrator.domain.events import JobFinished
from orchestrator.executors.kubernetes.controller import Controller
from orchestrator.executors.kubernetes.timings import ControllerTimings
from tests.executors.kubernetes.scripted_round import Driver, FakeJobHandle, Rig, clusters, jobs_of, plays, rig_on
from tests.kubernetes_api import Node

SHARES = (0.1, 0.5, 0.9)
LOOKS = 15
TOLERANCE = 2.5
"""The largest factor over the figure at 10 %. What grows with the finished jobs is nine times as much at 90 %."""
PACE = ControllerTimings(refresh_interval=1.0, min_interval=0.02)


class Gate:
    """Holds the drivers back while a look is measured."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()

    def script(self, driver: Driver) -> int:
        """Runs a driver that plays as soon as the gate is open."""
        while not driver.hang(self._open):
            return 137
        return plays(driver)

    def shut(self) -> None:
        """Makes drivers wait."""
        self._open.clear()

    def open(self) -> None:
        """Lets all drivers continue."""
        self._open.set()


class Looks:
    """Runs between two looks of a controller. At each share of finished jobs, waits until nothing happens and measures.

    The caller, who takes the events that the controller yields, counts `finished` and `happened`.
    """

    def __init__(self, rig: Rig, controller: Controller, gate: Gate, marks: list[int]) -> None:
        self._rig, self._controller, self._gate, self._marks = rig, controller, gate, marks
        self.finished = self.happened = 0
        self.figures: list[dict[str, float]] = []
        self.calls: Counter[tuple[str, str]] = Counter()
        self.seconds = 0.0
        self._wait, self._made, self._shut = controller._view.wait_for_change, 0, False  # noqa: SLF001  the bench looks inside
        controller._view.wait_for_change = self.wait  # type: ignore[method-assign]  # noqa: SLF001

    def wait(self, least: float, most: float, glance: float, news: Callable[[], bool]) -> None:
        """Waits as the controller would, and measures when the next share of jobs is finished."""
        calls = self._rig.cluster.api.calls
        still = not self.happened and self._made == calls["create", "jobs"]
        self.happened, self._made = 0, calls["create", "jobs"]
        if self._marks and self.finished >= self._marks[0]:
            self._gate.shut()
            if still and self._shut:
                before, began = Counter(calls), time.perf_counter()
                self.figures.append({"finished": self._marks.pop(0)} | measure(self._rig, self._controller))
                self.calls += calls - before
                self.seconds += time.perf_counter() - began
                self._gate.open()
            self._shut = bool(self._marks) and self.finished >= self._marks[0]
        self._wait(least, most, glance, news)


def look(controller: Controller) -> None:
    """Does one look at all jobs as `run` does, while nothing happens."""
    machines = list(controller._machines.values())  # noqa: SLF001
    seen = controller._view.refresh(machine.status for machine in machines)  # noqa: SLF001
    for machine in machines:
        for batch in controller._advance_job(machine, seen):  # noqa: SLF001
            raise SystemExit(f"something happened while nothing should: {batch}")
    controller._delete_unneeded_jobs(seen)  # noqa: SLF001
    controller._write_status()  # noqa: SLF001


def measure(rig: Rig, controller: Controller) -> dict[str, float]:
    """Returns what a look costs now."""
    rig.cluster.settle(60)
    before, times = Counter(rig.cluster.api.calls), []
    for _ in range(LOOKS):
        began = time.perf_counter()
        look(controller)
        times.append(time.perf_counter() - began)
    calls = sum(count for (verb, _), count in (rig.cluster.api.calls - before).items() if verb != "watch")
    gc.collect()
    tracemalloc.start()
    look(controller)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "in flight": len(controller._machines),  # noqa: SLF001
        "calls a look": calls / LOOKS,
        "ms a look": round(1000 * statistics.median(times), 1),
        "peak kB in a look": round(peak / 1024),
        "kB kept": round(kept(controller) / 1024),
        "MB of the process": round(resident(), 1),
    }


def kept(controller: Controller) -> int:
    """Returns the bytes that the controller keeps between two looks, without its arguments such as the plan."""
    given = [controller._plan, controller._queue, controller._deps, controller._api]  # noqa: SLF001
    seen, total = set(map(id, given)), 0
    waiting = list(vars(controller).values())
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, type) or callable(value):
            continue
        seen.add(id(value))
        total += sys.getsizeof(value)
        if isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += value
        elif type(value).__module__.startswith("orchestrator.executors.kubernetes"):
            slots = getattr(type(value), "__slots__", ())
            waiting += [getattr(value, name) for name in slots if hasattr(value, name)]
            waiting += list(vars(value).values()) if hasattr(value, "__dict__") else []
    return total


def resident() -> float:
    """Returns the process's memory in MB. Most of it is the test's API server, which keeps every change."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096 / 2**20


def play(jobs: int, most: int) -> dict[str, Any]:
    """Plays a plan with a number of jobs and returns the figures."""
    with (
        tempfile.TemporaryDirectory(prefix="sparring-cluster-") as folder,
        clusters((Node(cpu="1000", memory="1000Gi", pods=4 * most),)) as (cluster, hook),
    ):
        gate = Gate()
        rig = rig_on(cluster, hook, Path(folder), script=gate.script, most=most, pace=PACE)
        plan = jobs_of(*(f"j{number:05}" for number in range(jobs)))
        # Events are counted and not kept, because the rig would search all of them for every assignment.
        controller = Controller(rig.site(), plan, frozenset(), lambda job, _: FakeJobHandle(rig, job).assignment())
        looks = Looks(rig, controller, gate, [int(share * jobs) for share in SHARES])
        cluster.api.calls.clear()
        began = time.perf_counter()
        for batch in controller.run():
            looks.happened += 1
            looks.finished += sum(isinstance(each, JobFinished) for each in batch)
        seconds = time.perf_counter() - began - looks.seconds
        calls = Counter(cluster.api.calls) - looks.calls
        if looks.finished != jobs or rig.left_over():
            raise SystemExit(f"{looks.finished} of {jobs} jobs finished, and left is {rig.left_over()}")
    by_verb = {f"{verb} {plural}": count / jobs for (verb, plural), count in sorted(calls.items())}
    return {"jobs": jobs, "most": most, "seconds": seconds, "calls a job": by_verb, "looks": looks.figures}


def grown(looks: list[dict[str, float]]) -> list[str]:
    """Returns the figures of a look that grow with the finished jobs, without the test server's memory."""
    if len(looks) < 2:  # noqa: PLR2004  there is nothing to compare
        raise SystemExit("the round was over before anybody looked twice: give --jobs 200 or more")
    first = looks[0]
    return [
        f"{name}: {first[name]} at {first['finished']} finished jobs, {each[name]} at {each['finished']}"
        for each in looks[1:]
        for name in ("calls a look", "ms a look", "peak kB in a look", "kB kept")
        if each[name] > TOLERANCE * first[name]
    ]


def main() -> int:
    """Measures and prints; returns 1 if a figure grows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--most", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    logs.configure_logging(quiet=True)
    figures = play(asked.jobs, asked.most)
    more = grown(figures["looks"])
    if asked.json:
        print(json.dumps(figures | {"grows": more}, indent=2))
        return int(bool(more))
    print(f"{figures['jobs']} jobs, at most {figures['most']} at a time, in {figures['seconds']:.1f} s\n")
    print("| call | for each job |\n| --- | --- |")
    for name, count in figures["calls a job"].items():
        print(f"| {name} | {count:.3f} |")
    names = list(figures["looks"][0])
    print(f"\n| {' | '.join(names)} |\n|{' --- |' * len(names)}")
    for each in figures["looks"]:
        print(f"| {' | '.join(str(each[name]) for name in names)} |")
    print("\n".join(["", *(more or ["nothing grows with the finished jobs"])]))
    return int(bool(more))


if __name__ == "__main__":
    sys.exit(main())
