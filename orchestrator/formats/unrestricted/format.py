"""The plug-in of the unrestricted contest: its rounds, and what each of them plays.

Each defence plays one round on the eligibility set, and each closed week has a round on its pictures. The whole ledger
of the contest decides which defences play a round; events in it record the round's results.
"""

from collections.abc import Sequence
from fractions import Fraction

from orchestrator.domain.contest_events import SubmissionReceived
from orchestrator.domain.contest_format import (
    Format,
    Observations,
    PlayRules,
    RoundOfSeason,
    RuleInWords,
    SeasonRound,
    SourceRelease,
)
from orchestrator.domain.leaderboard import Column, Leaderboard, Row, Value, rank_rows
from orchestrator.domain.outcomes import Tally
from orchestrator.domain.plan import Cell
from orchestrator.domain.season import Season
from orchestrator.domain.submissions import Roster, Side, Submission
from orchestrator.domain.tasks import Task
from orchestrator.domain.text import counted_noun
from orchestrator.errors import Problem
from orchestrator.formats.unrestricted import events, rules_in_words
from orchestrator.formats.unrestricted.money import Transfer, TransferKind
from orchestrator.formats.unrestricted.round_names import eligibility_round, week_round
from orchestrator.formats.unrestricted.rounds import ContestFold
from orchestrator.formats.unrestricted.rules import ClosedDefences, UnrestrictedRules, rule_warnings

_PERCENT = 100


class Unrestricted(Format[UnrestrictedRules]):
    """The unrestricted contest."""

    name = "unrestricted"
    rules_type = UnrestrictedRules
    programs = (Side.DEFENCE,)
    event_types = events.EVENT_TYPES
    closes_itself = "each week closes by itself (U5)"
    has_season = True  # with a round for each defence and each week

    @classmethod
    def decides_prizes(cls, _: str) -> bool:
        """Returns False: prizes depend on settled pictures and on time, and are shown on the page of money (U10)."""
        return False

    def play_rules(self) -> PlayRules:
        """Returns that a defence may use random numbers: it gets a seed for each picture (U13)."""
        return PlayRules(allows_chance=True)

    def rules_in_words(self) -> list[RuleInWords]:
        """Returns the rules of the contest."""
        return rules_in_words.rules_in_words(self.rules)

    def rule_warnings(self) -> list[str]:
        """Returns what organizers should know about the rules that they chose."""
        return rule_warnings(self.rules)

    def task_problems(self, task: Task) -> list[Problem]:
        """Returns a problem if the pictures of the eligibility set have other classes than raters are asked about."""
        asked = [each.name for each in self.rules.classes]
        if sorted(task.classes) == sorted(asked):
            return []
        what = f"has the classes {', '.join(task.classes)}, and raters are asked about {' and '.join(asked)} (U1)"
        return [Problem(task.name, what, "give `rules.classes` the names of the dataset's classes")]

    def submission_warnings(self, season: Season, event: SubmissionReceived) -> list[str]:
        """Returns a warning if a defence gives no address of its code (U3)."""
        del season
        return self.release_warnings(event)

    def release_problems(self, submission: SourceRelease) -> list[Problem]:
        """Returns a problem if a defence gives no address of its code, which says what follows from that (U3)."""
        if submission.source:
            return []
        follows = "is refused when it is tested" if self.rules.closed is ClosedDefences.REFUSED else "wins no prize"
        remedy = f"write the address at which the code is published; a defence without one {follows}"
        return [Problem("source", "missing (U3)", remedy)]

    def roster_problems(self, roster: Roster, round_name: str = "") -> list[Problem]:
        """Returns a problem for each baseline of the contest file: only submissions take part in the weeks."""
        del round_name
        return [
            Problem("baselines", f"{each.id} would never be asked about a picture", "submit it as the organizers' team")
            for each in roster
            if each.baseline
        ]

    def rounds(self, season: Season, task: str) -> Sequence[SeasonRound]:
        """Returns a round for each defence that the board found readable, and one for each closed week with pictures.

        The labels of the eligibility set stay secret, for later defences, until the last week has closed.
        """
        del task
        found, week_is_open = [], True
        for event, _ in season.format_events:
            match event:
                case events.ReadabilityDecided() if event.readable:
                    found.append(eligibility_round(event.defence))
                case events.WeekClosed():
                    found += [week_round(event.week)] if event.pictures else []
                    week_is_open = False
                case events.WeekOpened():
                    week_is_open = True
        return [SeasonRound(name, reveals_labels=not week_is_open, automatic=True) for name in found]

    def withdrawal_obstacle(self, season: Season, submission: str) -> str:
        """Returns that its stake is not settled, or that it got the prize: its place is what was paid for (U10).

        A team that sees which picture of a closed week breaks its staked defence could otherwise withdraw the defence
        before it is asked, and nobody would win the stake.
        """
        staked = False
        for event, _ in season.format_events:
            match event:
                case events.DefencesStaked(transfers=[_, *_]) if submission in event.criteria:
                    staked = True
                case events.StakePaid() if event.defence == submission:
                    staked = True
                case events.MoneyMoved() if event.cause in ("end", f"stake:{submission}"):
                    staked = False
        if staked:
            return "its stake is not settled yet (U9)"
        days = self.rules.days_unbroken
        prize = Transfer(TransferKind.DEFENCE_PRIZE, "", "", 0, defence=submission, days=days).id
        paid = any(isinstance(event, events.PrizePaid) and event.award == prize for event, _ in season.format_events)
        return f"the prize for {days} days was paid" if paid else ""

    def ledger_fold(self, *, redacted: bool = False) -> ContestFold:
        """Returns the fold that decides, from the whole ledger, which defences are asked about which pictures."""
        return ContestFold(self.rules, redacted=redacted)

    def publish_problems(self, season: Season, *, full: bool, pictures: bool) -> list[Problem]:
        """Returns problems if the open week has pictures, or if the bundle would show pictures that the board withheld.

        A ledger shows who submitted which picture, which is secret until the week closes (U5).
        """
        del full
        received = withheld = 0
        for event, _ in season.format_events:
            match event:
                case events.PictureReceived():
                    received += 1
                case events.WeekClosed():
                    received = 0
                case events.ReportDecided(withhold=True):
                    withheld += 1
        problems = []
        if received:
            pictures_ = counted_noun(received, "picture")
            what = f"the ledger holds {pictures_} of the open week, which are secret until it closes (U5)"
            remedy = "publish after the week has closed, before the first picture of the next week arrives"
            problems.append(Problem("week", what, remedy))
        if withheld and pictures:
            what = f"the board withheld {counted_noun(withheld, 'picture')}, and a bundle with pictures would show them"
            problems.append(Problem("pictures", what, "publish without --pictures"))
        return problems

    def schedule(self, roster: Roster, where: RoundOfSeason | None = None) -> tuple[Cell, ...]:
        """Returns one cell for each defence of a round: it classifies all of the round's pictures."""
        del where
        return tuple(Cell(defence.id) for defence in roster.by_side(Side.DEFENCE))

    def leaderboards(self, observed: Observations) -> tuple[Leaderboard, ...]:
        """Returns how many pictures of a round each defence answered. People decide later which ones break it (U7)."""
        rows = [self._row(observed, defence) for defence in observed.roster.by_side(Side.DEFENCE)]
        board = Leaderboard(
            name="defences",
            title="Answers",
            measure="pictures that it labelled",
            unit="percent",
            more_is_better=True,
            rules=("U1", "U7"),
            rows=rank_rows(rows, more_is_better=True),
            columns=(
                Column("asked", "Asked", "pictures"),
                Column("abstained", "Abstained", "pictures"),
                Column("faults", "Faults", "pictures", more_is_better=False),
            ),
        )
        return (board,)

    def notes(self, observed: Observations) -> list[str]:
        """Returns a note that the accuracies of a week's round have no meaning."""
        if not observed.round.startswith(week_round("")):
            return []
        return ["Pictures of a week have no labels until raters judge them (U6), so accuracies here mean nothing."]

    def _row(self, observed: Observations, defence: Submission) -> Row:
        tally, standing = observed.tally(defence.id), observed.eligibility(defence.id)
        counted = tally is not None and tally.complete
        answered = tally.total - tally.abstained - tally.faults if tally is not None else 0
        return Row(
            submission=defence.id,
            score=Fraction(_PERCENT * answered, tally.total) if tally is not None and counted else None,
            reason=standing.unranked_reason or _incomplete_reason(tally),
            values={
                "asked": Value(None if tally is None else tally.total),
                "abstained": Value(None if tally is None else tally.abstained),
                "faults": Value(None if tally is None else tally.faults),
            },
            receipt_number=standing.receipt_number,
            submitted=defence.submitted,
        )


def _incomplete_reason(tally: Tally | None) -> str:
    """Returns why a defence has no share of labelled pictures, "" if it has one."""
    if tally is None:
        return "not played yet"
    if tally.complete:
        return ""
    return f"{tally.not_played} of {tally.total} pictures were not played: its faults took too long"
