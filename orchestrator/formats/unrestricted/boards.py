"""The boards of an unrestricted contest: how long each defence has held, and how many defences each team broke.

Both are computed from the state alone, so folding the ledger up to a date gives the boards of that date. Pictures of
the open week are not counted, because their number is secret until the close (U5).
"""

from collections.abc import Mapping
from datetime import timedelta
from fractions import Fraction

from orchestrator.domain.leaderboard import Column, Leaderboard, Row, Value, rank_rows
from orchestrator.formats.unrestricted.money import EXPONENTS, TransferKind
from orchestrator.formats.unrestricted.state import Defence, DefenceStatus, Picture, PictureStatus, State

_DAY = timedelta(days=1)
_PERCENT = 100


def boards(state: State) -> tuple[Leaderboard, Leaderboard]:
    """Returns the board of defences and the board of attackers at the time of the last event."""
    return defence_board(state), attacker_board(state)


def defence_board(state: State) -> Leaderboard:
    """Returns the board of published defences, ranked by whole days staked and unbroken. Others have no rank."""
    unit = _currency(state)
    columns = (
        Column("published", "Public for", "days", measure="whole days"),
        Column("stake", "Stake", unit, measure="the prize for breaking it"),
        Column("coverage", "Answers", "percent", more_is_better=True, measure="of the pictures of closed weeks"),
        Column("breaks", "Breaks", "pictures", more_is_better=False),
        Column("lucky", "Lucky breaks", "pictures", measure="that at most two of four other seeds repeat"),
        Column("prize", "Prize", unit, more_is_better=True, measure="awarded so far"),
    )
    published = [each for each in state.defences.values() if each.published_at is not None]
    return Leaderboard(
        name="defences",
        title="Defences",
        measure="days staked and unbroken",
        unit="days",
        more_is_better=True,
        rules=("U7", "U9", "U10", "U13"),
        rows=rank_rows([_defence_row(state, each) for each in published], more_is_better=True),
        columns=columns,
    )


def attacker_board(state: State) -> Leaderboard:
    """Returns the board of the teams with pictures in closed weeks, ranked by how many defences they broke."""
    pictures: dict[str, list[Picture]] = {}
    for picture in state.pictures.values():
        if picture.status is not PictureStatus.RECEIVED:
            pictures.setdefault(picture.team, []).append(picture)
    entrants = state.entrants()
    broken: dict[str, set[str]] = {}
    for defence in state.defences.values():
        for name in defence.broken_by:
            broken.setdefault(state.pictures[name].team, set()).add(defence.id)
    prizes = _prizes(state, TransferKind.BREAK_PRIZE, "team")
    rows = []
    for team, own in sorted(pictures.items()):
        valid = sum(each.status is PictureStatus.VALID for each in own)
        rows.append(
            Row(
                submission=team,
                score=Fraction(len(broken.get(team, ()))),
                receipt_number=min(each.receipt for each in own),
                no_prize=entrants.no_prize(team),
                values={
                    "pictures": Value(len(own)),
                    "valid": Value(valid),
                    "prize": Value(_amount(state, prizes.get(team, 0))),
                },
            )
        )
    return Leaderboard(
        name="attackers",
        title="Attackers",
        measure="defences broken",
        unit="defences",
        more_is_better=True,
        rules=("U4", "U6", "U7", "U10", "U12"),
        rows=rank_rows(rows, more_is_better=True),
        columns=(
            Column("pictures", "Pictures", "pictures", measure="in weeks that are closed"),
            Column("valid", "Valid", "pictures", more_is_better=True, measure="by raters or the board"),
            Column("prize", "Prize", _currency(state), more_is_better=True, measure="awarded so far"),
        ),
    )


def days_unbroken(state: State, defence: Defence) -> int | None:
    """Returns how many whole days a defence has held since it was staked; None if it was never staked.

    The count ends with the first picture that breaks it, and at the number of days that the prize needs (U10).
    """
    end = state.stake_ends(defence)
    if defence.staked_at is None or end is None:
        return None
    received = [state.pictures[each].received for each in defence.broken_by]
    until = min([state.at, end, *received])
    return max(until - defence.staked_at, timedelta()) // _DAY


def _defence_row(state: State, defence: Defence) -> Row:
    published, days = defence.published_at or state.at, days_unbroken(state, defence)
    asked = len(defence.answers)
    answered = sum(answer is not None for answer in defence.answers.values())
    lucky = sum(state.lucky(defence, state.pictures[each]) for each in defence.broken_by)
    entry = state.season.entries[defence.id]
    gone = entry.withdrawn or entry.disqualified
    barred = "its code is closed" if defence.code_is_closed else ""
    prize = state.rules.prizes
    staked = prize.per_break.units if prize and defence.staked_at is not None else 0
    left = f"{'withdrawn' if entry.withdrawn else 'disqualified'}: {gone}" if gone else ""
    return Row(
        submission=defence.id,
        score=None if days is None else Fraction(days),
        reason=left or ("" if days is not None else _unstaked(defence)),
        receipt_number=defence.receipt,
        remark=str(defence.status),
        no_prize=barred or state.entrants().no_prize(defence.team),
        values={
            "published": Value((state.at - published) // _DAY),
            "stake": Value(_amount(state, staked)),
            "coverage": Value(Fraction(answered * _PERCENT, asked) if asked else None),
            "breaks": Value(len(defence.broken_by)),
            "lucky": Value(lucky),
            "prize": Value(_amount(state, _prizes(state, TransferKind.DEFENCE_PRIZE, "defence").get(defence.id, 0))),
        },
    )


def _unstaked(defence: Defence) -> str:
    return "broken before it was staked" if defence.status is DefenceStatus.BROKEN else "not staked"


def _prizes(state: State, kind: TransferKind, by: str) -> Mapping[str, int]:
    """Returns the awards of a kind that were not withheld, summed by team or by defence, in smallest units."""
    found: dict[str, int] = {}
    for id_, transfer in state.books.transfers.items() if state.books else ():
        if transfer.kind is kind and state.books and not state.books.is_withheld(id_):
            key: str = getattr(transfer, by)
            found[key] = found.get(key, 0) + transfer.amount
    return found


def _currency(state: State) -> str:
    return state.books.currency if state.books else ""


def _amount(state: State, units: int) -> Fraction | None:
    """Returns an amount in whole units of the currency; None if nothing is paid."""
    return Fraction(units, 10 ** EXPONENTS[state.books.currency]) if state.books else None
