"""Describes a contest file in words for visitors."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from orchestrator.application.contests.submission_window import SubmissionWindow
from orchestrator.application.contests.unrestricted_contest import unrestricted_rules
from orchestrator.domain.access import AccessKind
from orchestrator.domain.contest_format import RuleInWords
from orchestrator.domain.submissions import Side
from orchestrator.domain.tasks import Isolation
from orchestrator.intake.contest_file import Contest
from orchestrator.reports import formatting

_ISOLATION = {
    Isolation.ATTACK: "No sandbox of a defence ever sees two versions of one picture.",
    Isolation.PICTURE: "Each sandbox of a defence answers one question and is then ended.",
    Isolation.ROUND: "A sandbox of a defence sees everything, in an order that is drawn.",
}
_WINDOWS = {
    "early": "Submissions are not received yet.",
    "open": "Submissions are received now.",
    "closed": "Submissions are no longer received.",
}
_RULES_OF_TEAMS = frozenset({"A1", "A4", "A5", "A6", "C2", "C9"})
"""The ids of the rules that people and teams have to follow before anything is played."""
_ANSWERS = {
    AccessKind.DECISION: "its labels",
    AccessKind.SCORES: "its labels and scores",
    AccessKind.GRADIENT: "its labels, scores and gradients",
}


@dataclass(frozen=True, slots=True)
class TaskWords:
    """A task in words."""

    name: str
    pictures: str
    classes: str
    budget: str


@dataclass(frozen=True, slots=True)
class ContestWords:
    """A contest file in words."""

    format: str
    submitted: str
    closes: str
    tasks: tuple[TaskWords, ...]
    rules: tuple[RuleInWords, ...]
    limits: tuple[str, ...]


@lru_cache(maxsize=1)
def contest_words(contest: Contest) -> ContestWords:
    """Returns a contest file in words; caches the latest. Raises Rejected if the pictures cannot be read."""
    return ContestWords(
        format=contest.file.format.replace("_", " "),
        submitted=_submitted(contest),
        tasks=tuple(_tasks(contest)),
        rules=tuple(contest.format.rules_in_words()),
        closes=contest.format.closes_itself,
        limits=tuple(_limits(contest)),
    )


def rules_of_teams(contest: Contest) -> list[RuleInWords]:
    """Returns the rules for people and teams before anything is played, which a person reads before joining a team."""
    return [each for each in contest.format.rules_in_words() if not _RULES_OF_TEAMS.isdisjoint(each[0].split(", "))]


def moment(time: datetime) -> str:
    """Returns a time with date and zone, such as `1 December 2026, 09:00 UTC+01:00`."""
    seconds = f":{time:%S}" if time.second else ""
    offset = f"{time:%z}"
    zone = "" if offset == "+0000" else f"{offset[:3]}:{offset[3:5]}"
    return f"{time.day} {time:%B %Y}, {time:%H:%M}{seconds} UTC{zone}"


def dates(window: SubmissionWindow) -> list[tuple[str, datetime, str]]:
    """Returns when submissions open and close: name, time, and the time in words. Omits times that are not set."""
    named = (("Opens", window.opens), ("Closed" if window.closing else "Closes", window.closes))
    return [(name, at, moment(at)) for name, at in named if at is not None]


def window_in_words(window: SubmissionWindow) -> str:
    """Returns whether submissions are received, in words."""
    if window.closing is not None:
        why = f": {window.reason}" if window.reason else "."
        return f"The organizers closed submissions{why}"
    return _WINDOWS[window.state]


def _submitted(contest: Contest) -> str:
    sides = {Side.ATTACK: "programs that change pictures (attacks)", Side.DEFENCE: "programs that classify (defences)"}
    kinds = [sides[side] for side in contest.format.programs]
    kinds += ["pictures in an archive"] if contest.format.picture_formats() else []
    kinds += ["pictures that defences may get wrong"] if unrestricted_rules(contest) is not None else []
    return " and ".join(kinds)


def _tasks(contest: Contest) -> Iterator[TaskWords]:
    for section in contest.file.all_tasks:
        task = contest.make_task(contest.load_samples(section.name), section.name)
        channels, height, width = task.shape
        colours = {1: "grey", 3: "colour"}.get(channels, f"of {channels} channels")
        yield TaskWords(
            name=task.name,
            pictures=f"{formatting.counted_noun(task.count, 'picture')}, {colours}, {width} x {height} pixels",
            classes=", ".join(task.classes),
            budget=formatting.budget(task.budget.norm, str(task.budget.epsilon)) if task.budget else "none",
        )


def _limits(contest: Contest) -> Iterator[str]:
    file, programs = contest.file, contest.format.programs
    if not programs:
        return
    limits = file.limits
    cores = formatting.counted_noun(int(limits.cpus), "core") if limits.cpus == 1 else f"{limits.cpus:g} cores"
    gpu = " and a GPU of its own" if limits.gpus else ""
    memory, writable = (formatting.byte_size(int(size)) for size in (limits.memory, limits.tmp))
    yield f"A sandbox has {memory} of memory, {cores}{gpu}, {writable} to write to, and no network."
    yield f"A program has {formatting.duration(limits.ready_seconds)} to load."
    if Side.ATTACK in programs:
        batch = formatting.counted_noun(limits.perturb_batch, "picture")
        yield f"An attack has {formatting.duration(limits.perturb_seconds)} for {batch}, and its share for fewer (A15)."
        yield "Attacks get the true labels (A2)." if file.labels is True else "Attacks do not get the labels (A2)."
        if file.access.kind is not AccessKind.NONE:
            asked = formatting.counted_noun(file.access.queries, "time")
            prices = file.access.to_access().prices_in_words
            counted = f"; {prices}" if prices else ""
            answers = _ANSWERS[file.access.kind]
            yield f"An attack may ask the defence {asked} for each picture, and gets {answers}{counted} (X6)."
    if Side.DEFENCE in programs:
        batch = formatting.counted_noun(limits.classify_batch, "picture")
        yield f"A defence has {formatting.duration(limits.classify_seconds)} for a question of up to {batch} (A7)."
        yield _ISOLATION[file.isolation]
    if file.replay.power and not contest.format.play_rules().allows_chance:
        yield (
            f"Answers are asked again in fresh sandboxes: a defence that changes {100 * file.replay.cheat:g} % of its "
            f"answers has a mismatch with a probability of {100 * file.replay.power:g} % (A9, A10)."
        )
