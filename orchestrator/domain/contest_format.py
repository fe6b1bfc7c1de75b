"""The interface of a contest format: the only connection between the software and the rules of a contest.

A format is a package in `formats/` or in another distribution (entry points of the group `sparring.formats`). It
consists of rules only: it gets observations, never a sandbox, and it neither reads a clock nor draws at random. Nothing
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
    """The rules that every format has, in the form of the contest file's `rules:`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    on_finding: OnFinding = OnFinding.DISQUALIFY
    """Rules A9 and A10."""


R = TypeVar("R", bound=FormatRules)
RuleInWords = tuple[str, str]
"""The ids of rules, such as `A9, A10`, empty if there is none, and one or two plain sentences."""

_FINDING_WORDS = {
    OnFinding.DISQUALIFY: "a submission that is found to break this is not ranked",
    OnFinding.ZERO: "findings are shown",
    OnFinding.FLAG: "findings are shown, and have no other consequence",
}


def finding_in_words(on_finding: OnFinding, words: Mapping[OnFinding, str] = MappingProxyType({})) -> str:
    """Returns the consequence of a finding of the determinism check (A9, A10). The format's own `words` come first."""
    sentence = {**_FINDING_WORDS, **words}[on_finding]
    return f"{sentence[0].upper()}{sentence[1:]}."


@dataclass(frozen=True, slots=True)
class PlayRules:
    """How adversarial examples are handled. These rules decide what is played, not only how it is judged."""

    on_missing: OnMissing = OnMissing.HELD
    """Rule A8."""
    on_violation: OnViolation = OnViolation.FORFEIT
    """Rule A14."""
    keep_scores: bool = False
    """Whether the scores that defences give with their labels are kept, because the format uses them."""
    decides_by_scores: bool = False
    """Whether the class with the largest score is a defence's answer, whatever its label says (B1, B3)."""
    needs_gradients: bool = False
    """Whether every defence has to give gradients, because the format's own attacks use them (rule A12)."""
    allows_chance: bool = False
    """Whether a defence may use chance: then it gets a seed with each picture (U13) and has no replays (A10)."""


@dataclass(frozen=True, slots=True)
class SeasonRound:
    """A round of a season on one task: played, or still to come.

    `blocked` says why it cannot be played yet; empty if it can. `reveals_labels`: whether no later round needs the
    hidden labels, so that a full bundle may be published once it is played. `automatic`: whether a worker plays it
    without a request.
    """

    name: str
    blocked: str = ""
    reveals_labels: bool = False
    automatic: bool = False


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """The players and pictures of one round of a season, in a format that decides them for each round.

    `pictures` are digests of arrays u8 [c, h, w] that the contest keeps; a picture that is listed twice is asked about
    twice. They have no labels. `task_pictures`: whether the task's own pictures are played before them.
    """

    players: tuple[str, ...]
    pictures: tuple[str, ...] = ()
    task_pictures: bool = False


@dataclass(frozen=True, slots=True)
class RoundOfSeason:
    """A round and its season. A round that is played by itself has no such value."""

    name: str
    task: str
    season: Season


class SourceRelease(Protocol):
    """The licence and the source of a submission (A6): of a manifest, a `SubmissionReceived` event or an entry."""

    @property
    def licence(self) -> str:
        """The SPDX id of its licence, "" if none is given."""

    @property
    def source(self) -> str:
        """The address of its published source, "" if it is not published."""


@dataclass(frozen=True, slots=True)
class Eligibility:
    """How a submission is ranked because of the season's events, apart from what it played.

    `unranked_reason` says why it is shown without a rank. `counts_in_means`: whether means over its side include it.
    `no_prize` says why it gets no prize. `disqualified`: whether the organizers took it out of the ranking. `has_left`:
    whether it was withdrawn or disqualified, and so does not meet later submissions. `receipt_number`: its place among
    all submissions in the order of the contest's ledger, None if the ledger does not have it.
    """

    unranked_reason: str = ""
    counts_in_means: bool = True
    no_prize: str = ""
    disqualified: bool = False
    has_left: bool = False
    receipt_number: int | None = None


@dataclass(frozen=True)
class SeasonState:
    """The part of a contest's ledger that affects one of its rounds."""

    eligibilities: Mapping[str, Eligibility] = field(default_factory=dict)
    """By submission. A submission that is absent has the default, `Eligibility()`."""
    events: tuple[FormatEvent, ...] = ()
    """The format's own events, in the order of the ledger."""


@dataclass(frozen=True)
class Observations:
    """The observations of a round so far. Cells that are not played yet are absent."""

    roster: Roster
    tallies: Mapping[Cell, Tally]
    findings: tuple[Finding, ...] = ()
    violations: Mapping[str, int] = field(default_factory=dict)
    """How many candidates of each attack were beyond the budget (rule A14)."""
    round: str = ""
    """The round of a season; empty for a round that is a contest by itself."""
    eligibilities: Mapping[str, Eligibility] = field(default_factory=dict)
    """The eligibility of each submission. A submission that is absent has the default, `Eligibility()`."""
    labels: Labels | None = None
    """The true labels [n]. A sealed bundle has none: there every picture is of class 0, see `answers_of`."""
    answers_of: Callable[[str], Mapping[Cell, Answers]] = lambda _: {}
    """Returns the answers [n] of one defence, by cell. They are read at the call, since all together are large."""
    scores_of: Callable[[str], Mapping[Cell, Scores]] = lambda _: {}
    """Returns the scores [n, classes] of one defence, by cell, if they are kept; NaN where the defence gave none.

    A sealed bundle has none."""
    queries_of: Callable[[Cell], QueryRecord | None] = lambda _: None
    """Returns the record of an attack's queries to the defence of a cell; None if it made none.

    A sealed bundle has none."""
    originals: Pixels | None = None
    """The task's pictures, u8 [n, c, h, w]. A bundle without pictures has none."""
    examples_of: Callable[[Cell], AdversarialExamples | None] = lambda _: None
    """Returns the adversarial examples that a cell's defence was shown; None for clean pictures, and if there are none.

    A bundle without pictures has none."""
    season_events: tuple[FormatEvent, ...] = ()
    """The format's own events of the contest, in the order of the ledger; none for a round by itself."""
    task: str = ""
    """The name of the task."""
    classes: tuple[str, ...] = ()
    """The names of the task's classes."""
    seconds_of: Callable[[str], float] = lambda _: 0.0
    """Returns how long a defence took to answer, in seconds; rounded in a sealed bundle."""

    def eligibility(self, submission: str) -> Eligibility:
        """Returns the eligibility of a submission."""
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
        """The attacks that forfeited every picture of every cell (rules A8 and A14).

        An attack that queries makes other pictures for each defence: one that failed against some of them delivered.
        """
        attacks = {cell.attack for cell in self.tallies if cell.attack is not None}
        return frozenset(
            attacks - {cell.attack for cell, tally in self.tallies.items() if tally.forfeits < tally.total}
        )

    def tally(self, defence: str, attack: str | None = None) -> Tally | None:
        """Returns one cell's counts, None if it is not played yet."""
        return self.tallies.get(Cell(defence, attack))

    def complete(self, defence: str, attack: str | None = None) -> bool:
        """Returns whether no picture of a cell was left out because faults of the defence took too long (A7)."""
        return not self._incomplete_cells or Cell(defence, attack) not in self._incomplete_cells

    @cached_property
    def _incomplete_cells(self) -> frozenset[Cell]:
        """The cells of which a picture was not played: nearly always none, and a large round has 90,000 cells."""
        return frozenset(cell for cell, tally in self.tallies.items() if not tally.complete)

    def accuracy(self, defence: str, attack: str | None = None) -> Fraction | None:
        """Returns one cell's accuracy, None if it is not played yet."""
        found = self.tally(defence, attack)
        return None if found is None else found.accuracy


class LedgerFold(ABC):
    """A format's own fold of the whole contest ledger, for formats whose rounds depend on more than the `Season`."""

    @abstractmethod
    def apply(self, event: ContestEvent, at: datetime) -> None:
        """Applies the next event, with its time. Raises Rejected if the event is not allowed there."""

    @abstractmethod
    def round_plan(self, name: str) -> RoundPlan:
        """Returns the players and pictures of a round."""

    @abstractmethod
    def round_events(self, name: str, observed: Observations, actor: str) -> tuple[FormatEvent, ...]:
        """Returns the events that have to be recorded now about a round that was played; none if they were recorded."""


class Format(ABC, Generic[R]):
    """One contest format, made with its rules.

    A method or attribute with a default is optional: a format without a season, without limits for teams or without
    events of its own leaves it out.
    """

    name: ClassVar[str]
    rules_type: ClassVar[type[FormatRules]]
    rules_of_play: ClassVar[tuple[str, ...]] = ()
    """The keys of its rules that decide what is played, fixed once a round was played. `a.b` is key b of rule a."""
    programs: ClassVar[tuple[Side, ...]] = tuple(Side)
    """The kinds of programs that can be submitted: those that perturb pictures (attack), or classify them (defence)."""
    withholds_outcomes: ClassVar[bool] = False
    """Whether the outcomes of single pictures stay secret until a full bundle, because teams have the pictures (C9)."""
    judges_pictures: ClassVar[bool] = False
    """Whether its numbers are computed from the pictures themselves, so that a full bundle has to hold them."""
    event_types: ClassVar[tuple[type[FormatEvent], ...]] = ()
    """The types of its own events in a contest's ledger."""
    organizer_events: ClassVar[tuple[type[FormatEvent], ...]] = ()
    """Those event types that organizers record with `sparring contest record`. The software records the others."""
    promotes_from: ClassVar[str] = ""
    """The round from whose leaderboards `sparring round promote` decides who goes on; empty if nobody is promoted."""
    closes_itself: ClassVar[str] = ""
    """Why organizers do not close submissions, because something else closes them; empty if they do."""
    report: ClassVar[str] = ""
    """Its additions to report pages: a `reports.blocks.ReportBlocks` as "module:Class", loaded to write a report."""

    def __init__(self, rules: R) -> None:
        self.rules = rules

    @classmethod
    def decides_prizes(cls, round_name: str) -> bool:
        """Returns whether a round's leaderboards decide prizes. Default: unless it promotes to a later round."""
        return round_name != cls.promotes_from

    def play_rules(self) -> PlayRules:
        """Returns how adversarial examples are handled."""
        return PlayRules()

    def organizer_attacks(self) -> tuple[OrganizerAttack, ...]:
        """Returns the format's own attacks. Each is in every roster, by its name. Default: none."""
        return ()

    def picture_formats(self) -> tuple[PictureFormat, ...]:
        """Returns the kinds of files in which a team can submit pictures instead of a program (C2). Default: none."""
        return ()

    def human_grading(self) -> HumanGrading | None:
        """Returns how people grade pictures, None if nobody does (C7). Default: None."""
        return None

    def publish_problems(self, season: Season, *, full: bool, pictures: bool) -> list[Problem]:
        """Returns every reason why such a bundle may not be published now. Default: none.

        `full` and `pictures`: whether it is a full bundle, and whether it holds pictures.
        """
        del season, full, pictures
        return []

    def measure_pictures(self, originals: Pixels, pictures: Pixels) -> dict[str, float]:
        """Returns measures of pictures that need no defence, by name. Default: none.

        Args:
            originals: the task's pictures, u8 [n, c, h, w].
            pictures: those that a team is going to submit, of the same shape.
        """
        del originals, pictures
        return {}

    def rule_warnings(self) -> list[str]:
        """Returns warnings for organizers about the rules that they chose, a sentence each. Default: none."""
        return []

    def task_warnings(self, task: Task) -> list[str]:
        """Returns warnings for organizers about a task under these rules, a sentence each. Default: none."""
        del task
        return []

    def rules_in_words(self) -> list[RuleInWords]:
        """Returns the rules in words, for visitors. Default: the keys of the contest file and their values."""
        return [("", f"{key}: {value}") for key, value in self.rules.model_dump(mode="json").items()]

    def task_problems(self, task: Task) -> list[Problem]:
        """Returns every reason why this format cannot be played on a task; places are relative to it. Default: none."""
        del task
        return []

    # A season

    @property
    def has_season(self) -> bool:
        """Whether a contest over weeks can be opened. Default: if `rounds` returns some for an empty season."""
        return bool(self.rounds(Season(), ""))

    def rounds(self, season: Season, task: str) -> Sequence[SeasonRound]:
        """Returns the rounds of a task in order: those that were played and those that can be played now or later.

        Default: none; the format then has single rounds only. With weekly rounds the list grows during the season.
        """
        del season, task
        return ()

    def ledger_fold(self, *, redacted: bool = False) -> LedgerFold | None:
        """Returns a new fold that decides the players and pictures of each round.

        Default: None; then every submission plays the task's pictures. `redacted`: whether the fold gets the public
        version of the ledger, which does not identify people.
        """
        del redacted
        return None

    def side_problems(self, side: Side) -> list[Problem]:
        """Returns a problem if teams cannot submit programs of this side."""
        if side in self.programs:
            return []
        kinds = [f"a {kind}" if kind is Side.DEFENCE else f"an {kind}" for kind in self.programs]
        kinds += ["pictures, in an archive"] if self.picture_formats() else []
        what = f"the format {self.name} takes no {side} programs"
        return [Problem("side", what, f"submit {' or '.join(kinds)}")]

    def entry_problems(self, season: Season, team: str, task: str, side: Side) -> list[Problem]:
        """Returns every reason why a team may not submit such a program now. Default: only that the team is unknown."""
        del task, side
        if team in season.teams:
            return []
        known = ", ".join(sorted(season.teams)) or "none yet"
        return [Problem("team", f"there is no team {team!r} (known: {known})", "add it with `sparring team add`")]

    def membership_problems(self, season: Season, team: str, people: Iterable[Person]) -> list[Problem]:
        """Returns every reason why these people may not be the members of this team. Default: none."""
        del season, team, people
        return []

    def submissions_per_team(self) -> int | None:
        """Returns how many programs of a kind a team may submit on a task, None for no limit. Default: no limit."""
        return None

    def submissions_per_day(self) -> int | None:
        """Returns how many submissions a team may make on one day, in UTC, None for no limit. Default: no limit."""
        return None

    def submission_warnings(self, season: Season, event: SubmissionReceived) -> list[str]:
        """Returns warnings for the team about a submission that is received. Default: none."""
        del season, event
        return []

    def release_warnings(self, submission: SourceRelease) -> list[str]:
        """Returns `release_problems` as sentences for the team."""
        return [f"{found.place} {found.what}; {found.remedy}" for found in self.release_problems(submission)]

    def event_problems(self, season: Season, event: FormatEvent) -> list[Problem]:
        """Returns every reason why organizers may not record one of `organizer_events` now. Default: none."""
        del season, event
        return []

    def reopening_obstacle(self, season: Season) -> str:
        """Returns which decision about the submissions keeps them from being reopened. Default: "", none does."""
        del season
        return ""

    def withdrawal_obstacle(self, season: Season, submission: str) -> str:
        """Returns what was decided about a submission so that its team cannot withdraw it. Default: "", nothing."""
        del season, submission
        return ""

    def release_problems(self, submission: SourceRelease) -> list[Problem]:
        """Returns what a submission still has to publish to be ranked in the end (A6). Default: nothing."""
        del submission
        return []

    def eligibility(self, entry: Entry, where: RoundOfSeason) -> Eligibility:
        """Returns the eligibility of a submission in a round. Default: see `base_eligibility`."""
        del where
        return base_eligibility(entry)

    def round_outcome(self, observed: Observations, *, actor: str, task: str, reason: str = "") -> FormatEvent | None:
        """Returns the event that follows from the leaderboards of the round `promotes_from`. Default: None."""
        del observed, actor, task, reason
        return None

    def outcome_warnings(self, season: Season, outcome: FormatEvent) -> list[str]:
        """Returns warnings for organizers about who goes on, a sentence or two each. Default: none.

        Args:
            season: the current state of the contest.
            outcome: what `round_outcome` returned.
        """
        del season, outcome
        return []

    # A round

    def roster_problems(self, roster: Roster, round_name: str = "") -> list[Problem]:
        """Returns every reason why this roster cannot play this format, or this round of a season. Default: none."""
        del roster, round_name
        return []

    @abstractmethod
    def schedule(self, roster: Roster, where: RoundOfSeason | None = None) -> tuple[Cell, ...]:
        """Returns every cell of a round that has to be classified.

        The cells determine what each attack has to make. Unless an attack queries, its pictures are made once for all
        its cells.

        Args:
            roster: who takes part.
            where: the round of a season; None for a round by itself.
        """

    @abstractmethod
    def leaderboards(self, observed: Observations) -> tuple[Leaderboard, ...]:
        """Returns the leaderboards for the observations so far."""

    def notes(self, observed: Observations) -> list[str]:
        """Returns notes for readers of the leaderboards, a sentence or two each. Default: none."""
        del observed
        return []

    def scores_released(self, observed: Observations) -> bool:
        """Returns whether public pages may show exact leaderboards and the counts of cells. Default: always.

        Until then they show rounded leaderboards and no cells. Exact numbers would reveal to a team the hidden answers
        on pictures that it made itself (C9).
        """
        del observed
        return True

    def disqualification(self, observed: Observations, submission: Submission) -> str:
        """Returns why the observations disqualify a submission, "" if they do not.

        Default: a finding of the determinism check, if the rules say so (A9, A10).
        """
        if self.rules.on_finding is OnFinding.DISQUALIFY:
            for finding in observed.findings:
                if finding.submission == submission.id:
                    return f"disqualified: finding {finding.id} ({', '.join(finding.rules)})"
        return ""


def base_eligibility(entry: Entry) -> Eligibility:
    """Returns the eligibility that every format starts from.

    A submission that was disqualified or withdrawn is shown without a rank, and counts in no mean.
    """
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
