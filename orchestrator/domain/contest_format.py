"""What a contest format is: the one seam between the software and the rules of a contest.

A format is a package under `formats/`, or of another distribution (entry points of the group `sparring.formats`). It
is rules only: it sees what was observed, never a sandbox, and it neither reads a clock nor draws at random. Nothing
outside its package names it. docs/formats.md describes how to write one.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from orchestrator.domain.contest_events import ContestEvent, FormatEvent, SubmissionReceived
from orchestrator.domain.findings import Finding, OnFinding
from orchestrator.domain.human_grading import HumanGrading
from orchestrator.domain.leaderboard import Leaderboard
from orchestrator.domain.organizer_attacks import OrganizerAttack
from orchestrator.domain.outcomes import Answers, OnMissing, OnViolation, Scores, Tally
from orchestrator.domain.plan import Cell
from orchestrator.domain.queries import QueryRecord
from orchestrator.domain.samples import AdversarialExamples, Labels, Pixels
from orchestrator.domain.season import Entry, Person, Season
from orchestrator.domain.submissions import PictureFormat, Roster, Side, Submission
from orchestrator.domain.tasks import Task
from orchestrator.errors import Problem


class FormatRules(BaseModel):
    """The rules that every format has, as the contest file's `rules:` writes them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    on_finding: OnFinding = OnFinding.DISQUALIFY
    """Rules A9 and A10."""


R = TypeVar("R", bound=FormatRules)
RuleInWords = tuple[str, str]
"""The ids of rules, such as `A9, A10`, empty where there is none, and a plain sentence or two."""

_FINDING_WORDS = {
    OnFinding.DISQUALIFY: "a submission that is found to break this is not ranked",
    OnFinding.ZERO: "findings are shown",
    OnFinding.FLAG: "findings are shown, and have no other consequence",
}


def finding_in_words(on_finding: OnFinding, words: Mapping[OnFinding, str] = MappingProxyType({})) -> str:
    """Returns what a finding of the determinism check leads to (A9, A10), in the format's own `words` where it has."""
    sentence = {**_FINDING_WORDS, **words}[on_finding]
    return f"{sentence[0].upper()}{sentence[1:]}."


@dataclass(frozen=True, slots=True)
class PlayRules:
    """How adversarial examples are taken: it decides what is played, not only how it is judged."""

    on_missing: OnMissing = OnMissing.HELD
    """Rule A8."""
    on_violation: OnViolation = OnViolation.FORFEIT
    """Rule A14."""
    keep_scores: bool = False
    """Whether the scores that defences give with their labels are kept, because the format judges by them."""
    needs_gradients: bool = False
    """Whether every defence has to give gradients, because the format's own attacks follow them (rule A12)."""
    allows_chance: bool = False
    """Whether a defence may use chance: then it is told a seed with each picture (U13) and not asked again (A10)."""


@dataclass(frozen=True, slots=True)
class SeasonRound:
    """A round of a season on one task: one that was played, or one that may come.

    `blocked` says why it cannot be played yet, empty where it can. `reveals_labels`: whether nothing that needs the
    hidden labels comes after it, so that a full bundle may be published once it was played. `automatic`: whether a
    worker plays it without being asked.
    """

    name: str
    blocked: str = ""
    reveals_labels: bool = False
    automatic: bool = False


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """Who plays a round of a season on which pictures, in a format that says so of each round.

    `pictures` are digests of arrays u8 [c, h, w] that the contest keeps; one that stands there twice is asked about
    twice. They have no labels. `task_pictures`: whether the task's own come before them.
    """

    players: tuple[str, ...]
    pictures: tuple[str, ...] = ()
    task_pictures: bool = False


@dataclass(frozen=True, slots=True)
class RoundOfSeason:
    """Which round of which season is meant; where a round is played by itself there is none of this."""

    name: str
    task: str
    season: Season


class SourceRelease(Protocol):
    """What a manifest, a receipt's event or an entry says of a submission's source (A6)."""

    @property
    def licence(self) -> str:
        """The SPDX id of its licence, "" where none is named."""

    @property
    def source(self) -> str:
        """Where its source is published, "" where it is not."""


@dataclass(frozen=True, slots=True)
class Eligibility:
    """What a season says of a submission beyond what was played.

    `unranked_reason` is why it is shown only. `counts_in_means`: whether means over its side include it all the same.
    `no_prize` is why it gets no prize. `disqualified`: whether the organizers took it out of the ranking. `has_left`:
    whether it was withdrawn or disqualified, and so meets nobody who came later. `receipt_number`: its place among all
    submissions in the order of the contest's ledger, None where the ledger does not have it.
    """

    unranked_reason: str = ""
    counts_in_means: bool = True
    no_prize: str = ""
    disqualified: bool = False
    has_left: bool = False
    receipt_number: int | None = None


@dataclass(frozen=True)
class SeasonState:
    """What a contest's ledger says that bears on one of its rounds."""

    eligibilities: Mapping[str, Eligibility] = field(default_factory=dict)
    """By submission; an absent one stands."""
    events: tuple[FormatEvent, ...] = ()
    """The format's own, in their order."""


@dataclass(frozen=True)
class Observations:
    """Everything that was observed in a round so far. Cells that are not played yet are absent."""

    roster: Roster
    tallies: Mapping[Cell, Tally]
    findings: tuple[Finding, ...] = ()
    violations: Mapping[str, int] = field(default_factory=dict)
    """Candidates beyond the budget, per attack (rule A14)."""
    round: str = ""
    """The round of a season; empty for a round that is a contest by itself."""
    eligibilities: Mapping[str, Eligibility] = field(default_factory=dict)
    """What the season says of a submission; an absent one stands."""
    labels: Labels | None = None
    """The true labels [n]. A sealed bundle has none: there every picture is of class 0, see `answers_of`."""
    answers_of: Callable[[str], Mapping[Cell, Answers]] = lambda _: {}
    """Returns the answers [n] of one defence, by cell; read when they are asked for, since together they are large."""
    scores_of: Callable[[str], Mapping[Cell, Scores]] = lambda _: {}
    """Returns the scores [n, classes] of one defence, by cell, where they are kept; NaN where it gave none.

    A sealed bundle has none."""
    queries_of: Callable[[Cell], QueryRecord | None] = lambda _: None
    """Returns what the defence of a cell was asked while its pictures were made; None where it was not.

    A sealed bundle has none."""
    originals: Pixels | None = None
    """The task's pictures, u8 [n, c, h, w]. A bundle without pictures has none."""
    examples_of: Callable[[Cell], AdversarialExamples | None] = lambda _: None
    """Returns the pictures that a cell's defence was shown; None for clean ones, and where there are none.

    A bundle without pictures has none."""
    season_events: tuple[FormatEvent, ...] = ()
    """The format's own events of the contest, in their order; none for a round by itself."""
    task: str = ""
    """The name of the task."""
    class_count: int = 0
    """How many classes the task has."""
    classes: tuple[str, ...] = ()
    """Their names."""
    seconds_of: Callable[[str], float] = lambda _: 0.0
    """Returns how long a defence took to answer, in seconds. A sealed bundle has rounded ones."""

    def eligibility(self, submission: str) -> Eligibility:
        """Returns what the season says of a submission."""
        return self.eligibilities.get(submission, Eligibility())

    @cached_property
    def faults(self) -> Mapping[str, int]:
        """The pictures that each defence failed to classify (rule A7), over all cells."""
        found: Counter[str] = Counter()
        for cell, tally in self.tallies.items():
            found[cell.defence] += tally.faults
        return found

    @cached_property
    def undelivered_attacks(self) -> frozenset[str]:
        """The attacks of which no picture counts as delivered (rules A8 and A14)."""
        attacked = ((cell.attack, tally) for cell, tally in self.tallies.items())
        return frozenset(attack for attack, tally in attacked if attack and tally.forfeits == tally.total)

    def tally(self, defence: str, attack: str | None = None) -> Tally | None:
        """Returns one cell's counts, None when it is not played yet."""
        return self.tallies.get(Cell(defence, attack))

    def complete(self, defence: str, attack: str | None = None) -> bool:
        """Returns whether no picture of a cell was left out because faults of the defence took too long (A7)."""
        found = self.tally(defence, attack)
        return found is None or found.complete

    def accuracy(self, defence: str, attack: str | None = None) -> Fraction | None:
        """Returns one cell's accuracy, None when it is not played yet."""
        found = self.tally(defence, attack)
        return None if found is None else found.accuracy


class LedgerFold(ABC):
    """What a format makes of a whole contest ledger, where its rounds follow from more than a season."""

    @abstractmethod
    def learn(self, event: ContestEvent, at: datetime) -> None:
        """Learns the next event and when it was. Raises Rejected where it may not have happened."""

    @abstractmethod
    def round_plan(self, name: str) -> RoundPlan:
        """Returns who plays a round on which pictures."""

    @abstractmethod
    def round_events(self, name: str, observed: Observations, actor: str) -> tuple[FormatEvent, ...]:
        """Returns what has to be recorded now of a round that was played; nothing where it was recorded."""


class Format(ABC, Generic[R]):
    """One contest format, made with its rules.

    What has a default is optional: a format without a season, without teams' limits or without events of its own says
    nothing of them.
    """

    name: ClassVar[str]
    rules_type: ClassVar[type[FormatRules]]
    rules_of_play: ClassVar[tuple[str, ...]] = ()
    """The keys of its rules that decide what is played, so that they cannot change once a round was; `a.b` is the key b
    of the rule a."""
    programs: ClassVar[tuple[Side, ...]] = tuple(Side)
    """What the programs do that can be handed in: perturb pictures (attack), classify them (defence)."""
    withholds_outcomes: ClassVar[bool] = False
    """Whether nobody is told before a full bundle what became of single pictures, because teams have them (C9)."""
    judges_pictures: ClassVar[bool] = False
    """Whether its numbers follow from the pictures themselves, so that a full bundle has to hold them."""
    event_types: ClassVar[tuple[type[FormatEvent], ...]] = ()
    """Its own events of a contest's ledger."""
    organizer_events: ClassVar[tuple[type[FormatEvent], ...]] = ()
    """Those of them that organizers note with `sparring contest record`; the others follow from something."""
    promotes_from: ClassVar[str] = ""
    """The round after whose boards `sparring round promote` notes who goes on; empty where nobody is promoted."""
    closes_itself: ClassVar[str] = ""
    """Why organizers do not close submissions: what closes in their place; empty where they do."""
    report: ClassVar[str] = ""
    """What it adds to report pages: a `reports.blocks.ReportBlocks` as "module:Class", loaded when one is written."""

    def __init__(self, rules: R) -> None:
        self.rules = rules

    @classmethod
    def decides_prizes(cls, round_name: str) -> bool:
        """Returns whether prizes follow from the boards of a round. Default: unless it promotes to a later one."""
        return round_name != cls.promotes_from

    def play_rules(self) -> PlayRules:
        """Returns how adversarial examples are taken."""
        return PlayRules()

    def organizer_attacks(self) -> tuple[OrganizerAttack, ...]:
        """Returns the attacks that the format brings itself: each is in every roster, by its name. Default: none."""
        return ()

    def picture_formats(self) -> tuple[PictureFormat, ...]:
        """Returns the kinds of files in which pictures can be handed in in place of a program (C2). Default: none."""
        return ()

    def human_grading(self) -> HumanGrading | None:
        """Returns how people grade pictures, None where nobody does (C7). Default: None."""
        return None

    def publish_problems(self, season: Season, *, full: bool, pictures: bool) -> list[Problem]:
        """Returns why no bundle, no full one, or none with pictures, may be published now. Default: nothing."""
        del season, full, pictures
        return []

    def measure_pictures(self, originals: Pixels, pictures: Pixels) -> dict[str, float]:
        """Returns what can be measured of pictures without any defence, by name. Default: nothing.

        Args:
            originals: the task's, u8 [n, c, h, w].
            pictures: those that are to be handed in, of the same shape.
        """
        del originals, pictures
        return {}

    def rule_warnings(self) -> list[str]:
        """Returns what organizers should know of the rules that they chose, a sentence each. Default: nothing."""
        return []

    def task_warnings(self, task: Task) -> list[str]:
        """Returns what organizers should know of a task under these rules, a sentence each. Default: nothing."""
        del task
        return []

    def rules_in_words(self) -> list[RuleInWords]:
        """Returns the rules as visitors read them. Default: the keys of the contest file and their values."""
        return [("", f"{key}: {value}") for key, value in self.rules.model_dump(mode="json").items()]

    def task_problems(self, task: Task) -> list[Problem]:
        """Returns why this format cannot be played on a task; places are relative to it. Default: nothing."""
        del task
        return []

    # A season

    @property
    def has_season(self) -> bool:
        """Whether a contest over weeks can be opened. Default: where a season has rounds before anything happened."""
        return bool(self.rounds(Season(), ""))

    def rounds(self, season: Season, task: str) -> Sequence[SeasonRound]:
        """Returns the rounds of a task in order: those that were played and those that may come now or later.

        Default: none, so that the format plays single rounds only. Weekly rounds are a list that grows with the season.
        """
        del season, task
        return ()

    def ledger_fold(self, *, redacted: bool = False) -> LedgerFold | None:
        """Returns what says of each round who plays it on what. Default: None, everybody plays the task's pictures.

        `redacted`: it learns a ledger as everybody sees it, which does not say who people are.
        """
        del redacted
        return None

    def entry_problems(self, season: Season, team: str, task: str, side: Side) -> list[Problem]:
        """Returns every reason why a team may not hand in a program of this kind now. Default: it has to exist."""
        del task, side
        if team in season.teams:
            return []
        known = ", ".join(sorted(season.teams)) or "none yet"
        return [Problem("team", f"there is no team {team!r} (known: {known})", "add it with `sparring team add`")]

    def membership_problems(self, season: Season, team: str, people: Iterable[Person]) -> list[Problem]:
        """Returns every reason why these people may not be this team. Default: none."""
        del season, team, people
        return []

    def submissions_per_team(self) -> int | None:
        """Returns how many programs of a kind a team may hand in on a task, None without a limit."""
        return None

    def submissions_per_day(self) -> int | None:
        """Returns how often a team may hand in on one day, in UTC, None without a limit. Default: no limit."""
        return None

    def submission_warnings(self, season: Season, event: SubmissionReceived) -> list[str]:
        """Returns what a team is told of a submission that is received all the same. Default: nothing."""
        del season, event
        return []

    def release_warnings(self, submission: SourceRelease) -> list[str]:
        """Returns `release_problems` in words, for its team."""
        return [f"{found.place} {found.what}; {found.remedy}" for found in self.release_problems(submission)]

    def event_problems(self, season: Season, event: FormatEvent) -> list[Problem]:
        """Returns every reason why organizers may not note one of `organizer_events` now. Default: none."""
        del season, event
        return []

    def reopening_obstacle(self, season: Season) -> str:
        """Returns what was decided by the submissions there were, so that no more may come. Default: nothing."""
        del season
        return ""

    def release_problems(self, submission: SourceRelease) -> list[Problem]:
        """Returns what a submission still has to publish before it is ranked in the end (A6). Default: nothing."""
        del submission
        return []

    def eligibility(self, entry: Entry, where: RoundOfSeason) -> Eligibility:
        """Returns what the season says of a submission in a round. Default: who left is shown, unranked."""
        del where
        return base_eligibility(entry)

    def round_outcome(self, observed: Observations, *, actor: str, task: str, reason: str = "") -> FormatEvent | None:
        """Returns the event that follows from the boards of the round `promotes_from`. Default: none does."""
        del observed, actor, task, reason
        return None

    def outcome_warnings(self, season: Season, outcome: FormatEvent) -> list[str]:
        """Returns what organizers should know of who goes on, a sentence or two each. Default: nothing.

        Args:
            season: the contest as it is.
            outcome: what `round_outcome` returned.
        """
        del season, outcome
        return []

    # A round

    def roster_problems(self, roster: Roster, round_name: str = "") -> list[Problem]:
        """Returns why this roster cannot play this format, or this round of a season. Default: nothing."""
        del roster, round_name
        return []

    @abstractmethod
    def schedule(self, roster: Roster, where: RoundOfSeason | None = None) -> tuple[Cell, ...]:
        """Returns the work items of a round: every cell that has to be classified.

        What an attack has to make for them follows from the cells; it is made once and shared.

        Args:
            roster: who takes part.
            where: the round of a season; None for a round by itself.
        """

    @abstractmethod
    def leaderboards(self, observed: Observations) -> tuple[Leaderboard, ...]:
        """Returns the boards of what is observed so far."""

    def notes(self, observed: Observations) -> list[str]:
        """Returns what a reader of the boards has to know, a sentence or two each. Default: nothing."""
        del observed
        return []

    def scores_released(self, observed: Observations) -> bool:
        """Returns whether everybody may see the boards as they are, and the counts of cells. Default: always.

        Until then public pages have the boards rounded and no cells, where exact numbers would tell a team the hidden
        answers on pictures that it made itself (C9).
        """
        del observed
        return True

    def disqualification(self, observed: Observations, submission: Submission) -> str:
        """Returns why what was observed takes a submission out of the ranking, "" where nothing does.

        Default: a finding of the determinism check, where the rules say so (A9, A10).
        """
        if self.rules.on_finding is OnFinding.DISQUALIFY:
            for finding in observed.findings:
                if finding.submission == submission.id:
                    return f"disqualified: finding {finding.id} ({', '.join(finding.rules)})"
        return ""


def base_eligibility(entry: Entry) -> Eligibility:
    """Returns what holds in every format: who was disqualified or withdrew is shown, unranked, and in no mean."""
    if entry.disqualified:
        return Eligibility(
            f"disqualified: {entry.disqualified}",
            counts_in_means=False,
            disqualified=True,
            has_left=True,
            receipt_number=entry.receipt_number,
        )
    if entry.withdrawn:
        return Eligibility(
            f"withdrawn: {entry.withdrawn}",
            counts_in_means=False,
            has_left=True,
            receipt_number=entry.receipt_number,
        )
    return Eligibility(receipt_number=entry.receipt_number)
