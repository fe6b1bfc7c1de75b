"""Everything but the API server: jobs in pods of three containers, with the driver that the runner image has.

The same round is played on the docker backend by the local engine: what is on record has to be the same, times and what
is measured aside. Players crash, hang, run out of memory and answer nonsense in the middle of a step.
"""

import json
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from orchestrator import plugins
from orchestrator.application.rounds.assemble_context import assemble_context
from orchestrator.domain.ids import digest
from orchestrator.domain.plan import Cell
from orchestrator.domain.submissions import Roster, Side, Submission
from orchestrator.domain.tasks import Budget, Norm, Task
from orchestrator.execution.planner import make_plan
from orchestrator.execution.round_runner import RoundRunner
from orchestrator.executors.kubernetes.labels import RoundRef
from orchestrator.executors.kubernetes.shared_volume import DriverOutcome
from orchestrator.executors.local import LocalExecutor
from orchestrator.intake.contest_file import ContestFile
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.folder import FolderBlobs
from orchestrator.ledger.stores.memory import MemoryLedger
from orchestrator.sandboxes.base import Ending, ImageSource, SandboxSpec

from . import brightest_quarter
from .driver_pods import Driven, stale
from .pods import RUNNER, Pod

pytestmark = [pytest.mark.docker, pytest.mark.parametrize("backend", ["docker"], indirect=True, scope="module")]

FILE = {
    "sparring": 1,
    "contest": "pods",
    "title": "Pods",
    "format": "tournament",
    "task": {"name": "quarters", "dataset": {"kind": "digits"}, "budget": {"epsilon": "20"}},
    "limits": {
        "memory": "256MiB",
        "ready_seconds": 30,
        "perturb_batch": 8,
        "perturb_seconds": 60,  # nothing is late on a busy machine
        "classify_seconds": 60,
        "restarts": 1,
    },
    "replay": {"power": 0.3, "cheat": 0.3},
}
_MEASURED = {
    "fault_seconds",
    "fresh_copy",
    "at",
    "cpu_seconds",
    "device",
    "peak_bytes",
    "peak_pids",
    "sampled",
    "seconds",
    "wall_seconds",
}
_COUNTED = {"kills", "stderr", "stderr_bytes", "stdin_bytes", "stdout_bytes"}


@pytest.fixture(scope="module")
def players(engine) -> Callable[[str], str]:
    """Returns `image(submission)`: see quarters.builder."""
    if stale(engine):
        pytest.fail(f"{RUNNER} was built from other sources; run images/build.sh images/runner")
    return brightest_quarter.builder(engine)


class Round:
    """A round between some players, to be played once."""

    def __init__(self, backend: Any, players: Callable[[str], str], folder: Any, names: tuple[str, ...], **more: Any):
        ids = {name: players(name) for name in names}
        samples = brightest_quarter.samples()
        file = ContestFile.model_validate(FILE | more)
        kind = plugins.load_plugin("formats", "tournament")
        submissions = [
            Submission(name, name, "team", Side(name.partition("_")[0]), ids[name], ids[name]) for name in names
        ]
        self.file, self.folder = file, folder
        self.setting = assemble_context(
            file,
            kind(kind.rules_type()),
            round="r",
            task=Task(
                "quarters",
                samples.classes,
                samples.shape,
                len(samples),
                samples.digest,
                Budget(Norm.LINF, Fraction(20)),
            ),
            samples=samples,
            secret=b"",
            roster=Roster(tuple(submissions)),
            images={name: backend.admit(ImageSource(image=ids[name])) for name in names},
            backend=backend,
            blobs=FolderBlobs(folder / "blobs"),
        )
        attacks = [None, *(attack.id for attack in self.setting.roster.by_side(Side.ATTACK))]
        defences = self.setting.roster.by_side(Side.DEFENCE)
        self.cells = [Cell(defence.id, attack) for defence in defences for attack in attacks]
        self.setting = replace(self.setting, secret=self._secret())
        self.record, self.ledger = RoundView(self.setting.blobs), MemoryLedger()

    def _secret(self) -> bytes:
        """Returns a secret with which no job asks the picture with the speck last: a fault there would need no pod."""
        jobs = [job.id for job in make_plan(self.setting, self.cells).jobs]
        for secret in (bytes([number]) * 32 for number in range(256)):
            setting = replace(self.setting, secret=secret)
            seeds = [setting.secret_seed("order", job) for job in jobs]
            if all(np.random.default_rng(seed).permutation(brightest_quarter.PICTURES)[-1] for seed in seeds):
                return secret
        raise AssertionError("256 orders end with one picture")

    def play(self, engine: Any) -> list[Any]:
        """Plays it whole; returns what is on record, measures aside."""
        dispatcher = RoundRunner(
            self.setting, self.ledger, self.record, lambda: "2026-03-01T08:00:00.000+00:00", lambda _event: None
        )
        dispatcher.open_round(self.file.model_dump(mode="json"))
        dispatcher.run(engine, self.cells)
        bodies = [_plain(json.loads(entry.event.model_dump_json())) for entry in self.ledger.read()]
        return sorted(bodies, key=lambda body: (body.get("job", ""), json.dumps(body, sort_keys=True)))

    def driven(self, template: Pod) -> Driven:
        """Returns the engine of pods like `template` for it."""
        setting = self.setting
        bout = RoundRef(setting.contest, setting.round, setting.task.name, digest(secrets.token_bytes(8)))

        def sandbox_spec(submission: str) -> SandboxSpec:
            return SandboxSpec(setting.images[submission], setting.policy, setting.run, "job")

        return Driven(template, self.folder, bout, sandbox_spec)


def _plain(value: Any) -> Any:
    """Leaves out what is measured, and the sandboxes that only were started ahead.

    A player that is told to go has two seconds for it. On a busy machine it may have to be stopped: that is no fault.
    """
    if isinstance(value, dict):
        left = {
            key: _plain(each)
            for key, each in value.items()
            if key not in _MEASURED | _COUNTED | {"head", "answers_digest"}
        }
        if left.get("kind") == "job_finished":
            del left["sandboxes"]
        if left.get("ending") in {Ending.CLEAN, Ending.STOPPED}:
            return {"ending": "told to go"}
        return left
    return [_plain(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def both(backend, players, pods, tmp_path_factory) -> Callable[..., tuple[Driven, Round]]:
    """Plays a round twice, in containers by the local engine and in pods, and compares the records."""

    def play(*names: str, **more: Any) -> tuple[Driven, Round]:
        folder = tmp_path_factory.mktemp("both")
        here = Round(backend, players, folder / "here", names, **more)
        there = Round(backend, players, folder / "there", names, **more)
        expected = here.play(LocalExecutor([None]))
        driven = there.driven(pods.prepared())
        assert there.play(driven) == expected
        assert {ended.code for ended in driven.ended.values()} == {0}
        return driven, there

    return play


@pytest.fixture(scope="module")
def honest(both) -> tuple[Driven, Round]:
    """A round of honest players."""
    return both("attack_honest", "defence_honest")


@pytest.fixture(scope="module")
def ended(both) -> tuple[Driven, Round]:
    """A round of defences that end themselves, or are ended, in the middle of a step."""
    return both("defence_crashes", "defence_eats", replay={"power": 0})


def steps_of(round_: Round, submission: str) -> list[Any]:
    """Returns a submission's steps."""
    every = [step for steps in round_.record.round.steps.values() for step in steps.values()]
    return [step for step in every if step.submission == submission]


def test_an_image_stays_what_it_was_while_others_build_the_same(backend, engine):
    """Two builds at the same moment make two images, and a build after them finds only one of both."""
    builders = [brightest_quarter.builder(engine) for _ in range(2)]
    name = f"attack_{secrets.token_hex(8)}"
    with ThreadPoolExecutor() as threads:
        made = list(threads.map(lambda build: build(name), builders))
    try:
        assert [build(name) for build in builders] == made
    finally:
        for image in {*made}:
            engine.images.remove(image, force=True)


def test_honest_players(honest):
    """A perturb job, two classify jobs and two replays: each in one pod, but for replays, which have one a session."""
    driven, round_ = honest
    assert round_.record.round.closed
    assert [outcome for stage, outcome in driven.outcomes if stage != "replay"] == [DriverOutcome.FINISHED] * 3
    assert driven.outcomes.count(("replay", DriverOutcome.NEEDS_PLAYER)) >= 1


def test_an_attack_that_crashes_and_one_that_hangs(both):
    """The second batch is lost to the fault, and nothing else."""
    limits = FILE["limits"] | {"perturb_seconds": 10}
    _, round_ = both("attack_crashes", "attack_hangs", "defence_honest", replay={"power": 0}, limits=limits)
    faults = {
        (step.submission, fault.code, fault.pictures)
        for steps in round_.record.round.steps.values()
        for step in steps.values()
        for fault in step.faults
    }
    assert faults == {("attack_crashes", "died", 8), ("attack_hangs", "deadline", 8)}


def test_a_defence_that_crashes_in_the_middle_of_a_step(ended):
    """The step goes on in the next pod, and is one step on record."""
    driven, round_ = ended
    assert driven.outcomes.count(("classify", DriverOutcome.NEEDS_PLAYER)) >= 2
    faults = [fault for step in steps_of(round_, "defence_crashes") for fault in step.faults]
    # Where others were asked before it, its picture is asked again alone, and charged then.
    assert sum(fault.pictures for fault in faults) == 1
    assert {fault.code for fault in faults} == {"died"}


def test_a_defence_that_runs_out_of_memory(ended):
    """The kernel kills it, it is told so, and the next pod answers the rest."""
    steps = steps_of(ended[1], "defence_eats")
    assert {fault.code for step in steps for fault in step.faults} == {"out-of-memory"}
    assert {sandbox.reason for step in steps for sandbox in step.sandboxes} == {"out-of-memory", "clean"}


def test_a_defence_that_hangs_and_one_that_talks_nonsense(both):
    """Once faults have used up their time nothing more is asked: the rest of the job needs no pod."""
    limits = FILE["limits"] | {"classify_seconds": 5, "fault_seconds": 0}  # so that no machine asks more than another
    _, round_ = both("defence_hangs", "defence_nonsense", replay={"power": 0}, limits=limits)
    codes = {
        (name, fault.code)
        for name in ("defence_hangs", "defence_nonsense")
        for step in steps_of(round_, name)
        for fault in step.faults
    }
    assert codes >= {("defence_hangs", "deadline"), ("defence_hangs", "gave-up"), ("defence_nonsense", "reported")}


def test_a_cheat_is_found(both):
    """Replays are jobs, a session a pod; what they find is what the local engine finds."""
    driven, round_ = both("defence_dice", replay={"power": 0.9, "cheat": 0.3})
    assert [finding.submission for finding in round_.record.round.findings] == ["defence_dice"]
    assert driven.outcomes.count(("replay", DriverOutcome.NEEDS_PLAYER)) >= 2


def test_a_second_driver_is_refused(honest):
    """A Job may start a second pod: its driver says that the attempt is taken, plays nothing, and its player ends."""
    driven, _ = honest
    [name, *_] = driven.ended
    before = {path.name: path.read_bytes() for path in (driven.exchange.folder / name).iterdir()}
    driven.play(name, driven.sandbox_spec("attack_honest"))
    assert driven.ended[name].code == 3
    assert "pod-spent" in driven.ended[name].log
    assert {path.name: path.read_bytes() for path in (driven.exchange.folder / name).iterdir()} == before
