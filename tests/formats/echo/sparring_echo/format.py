"""The rules of echo."""

from collections.abc import Sequence
from typing import Literal

from sparring.plugins import (
    Cell,
    Column,
    Format,
    FormatEvent,
    FormatRules,
    Leaderboard,
    Observations,
    Problem,
    Roster,
    RoundOfSeason,
    Row,
    Season,
    SeasonRound,
    Side,
    Value,
    rank_rows,
)

ABSTAINED = Column("abstained", "Abstained", "pictures", more_is_better=False)


class EchoRules(FormatRules):
    """The rules of echo."""

    submissions_per_team: int = 2


class SeasonEnded(FormatEvent):
    """No week follows those that were played."""

    kind: Literal["echo.season_ended"] = "echo.season_ended"
    thanks: str = ""
    """Whom the organizers thank."""


class Echo(Format[EchoRules]):
    """Classifiers, ranked by accuracy, week after week."""

    name = "echo"
    rules_type = EchoRules
    programs = (Side.DEFENCE,)
    event_types = (SeasonEnded,)
    organizer_events = (SeasonEnded,)
    report = "sparring_echo.report.blocks:EchoBlocks"

    def rounds(self, season: Season, task: str) -> Sequence[SeasonRound]:
        """Returns the weeks that were played and the next one, which is blocked once the season has ended."""
        weeks = sum(played == task for _, played in season.played_rounds)
        blocked = "the season has ended" if season.format_events else ""
        played = [SeasonRound(f"week-{number}") for number in range(1, weeks)]
        last = [SeasonRound(f"week-{weeks}", reveals_labels=bool(blocked))] if weeks else []
        return (*played, *last, SeasonRound(f"week-{weeks + 1}", blocked))

    def event_problems(self, season: Season, event: FormatEvent) -> list[Problem]:
        """Returns that a season ends once."""
        del event
        return [Problem("season", "it has ended already", "look at `sparring board`")] if season.format_events else []

    def submissions_per_team(self) -> int:
        """Returns the rule."""
        return self.rules.submissions_per_team

    def schedule(self, roster: Roster, where: RoundOfSeason | None = None) -> tuple[Cell, ...]:
        """Returns clean pictures for everybody."""
        del where
        return tuple(Cell(submission.id) for submission in roster)

    def leaderboards(self, observed: Observations) -> tuple[Leaderboard, ...]:
        """Returns the one board."""
        rows = [self._row(observed, submission.id) for submission in observed.roster]
        return (
            Leaderboard(
                name="accuracy",
                title="Accuracy",
                measure="pictures classified correctly",
                unit="%",
                more_is_better=True,
                rules=(),
                rows=rank_rows(rows, more_is_better=True),
                columns=(ABSTAINED,),
            ),
        )

    def _row(self, observed: Observations, submission: str) -> Row:
        tally, standing = observed.tally(submission), observed.eligibility(submission)
        return Row(
            submission=submission,
            score=None if tally is None else 100 * tally.accuracy,
            reason=self.disqualification(observed, observed.roster[submission]) or standing.unranked_reason,
            values={"abstained": Value(None if tally is None else tally.abstained)},
            receipt_number=standing.receipt_number,
            score_terms={} if tally is None else {Cell(submission): 1},
        )
