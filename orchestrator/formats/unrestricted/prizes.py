"""Computes stakes, prizes and refunds of the unrestricted contest (rules U9, U10, U12, and U11 before a prize).

Each function looks at the books and at what happened. It returns the transfers that follow, which the caller posts
together; `Waiting` if something has to be settled first; or a `Problem` if a person asked for something impossible.
No function reads a clock or changes anything, so everybody who has the ledger computes the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import groupby

from orchestrator.domain.text import printable
from orchestrator.errors import Problem
from orchestrator.formats.unrestricted.money import (
    ATTACKERS,
    DEFENDERS,
    NOTE_LIMIT,
    OUTSIDE,
    POOL,
    REASON_LIMIT,
    Books,
    Claim,
    Money,
    Transfer,
    TransferKind,
    format_units,
    halve,
    reserved,
    split,
    stake,
    team_account,
)

PRIZE_DAYS = 90
_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Entrants:
    """Who is in which team, and who gets no prize (U12).

    `people` has, for each team, everybody who is in it now or was in it when it submitted something. `barred` has, for
    each person who gets no prize, the reason, such as "an organizer" or "a member of the review board".
    """

    people: Mapping[str, frozenset[str]]
    barred: Mapping[str, str]

    def no_prize(self, team: str) -> str:
        """Returns why a team gets no prize, without naming anybody; "" if it may get one."""
        reasons = sorted({self.barred[person] for person in self.people[team] if person in self.barred})
        return f"{' and '.join(reasons)} is in the team" if reasons else ""

    def share_person(self, team: str, other: str) -> bool:
        """Returns whether two teams are the same, or have a person in common."""
        return team == other or bool(self.people[team] & self.people[other])


@dataclass(frozen=True, slots=True)
class Break:
    """A valid picture that a defence labelled as the other class, after all appeals (U7)."""

    team: str
    receipt: int
    """The picture's position in the ledger."""
    received: datetime
    closes: datetime
    """When the week of the picture closed."""


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A picture that may still break a defence, or whose rejection the board has to confirm before a defence's prize.

    `reason` says what the picture waits for. `ruled` is whether only the board's confirmation is missing (U11). Prizes
    for breaking the defence do not wait for that, once another picture broke it.
    """

    picture: str
    received: datetime
    closes: datetime
    reason: str
    ruled: bool = False


@dataclass(frozen=True, slots=True)
class StakedDefence:
    """A staked defence, and what is known about the pictures that may break it.

    All defences of a batch have the same `staked_at`. `barred` says why the defence cannot win the prize for defences,
    such as that its code is closed or that it was withdrawn; it is "" if the defence can.
    """

    id: str
    team: str
    receipt: int
    staked_at: datetime
    breaks: tuple[Break, ...] = ()
    unsettled: tuple[Unsettled, ...] = ()
    barred: str = ""

    def end(self, days: int) -> datetime:
        """Returns when it will have been staked for `days` times 24 hours. A picture received then is too late."""
        return self.staked_at + timedelta(days=days)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Says that nothing can be awarded yet; `reasons` has a sentence for each thing that has to happen first."""

    reasons: tuple[str, ...]


def open_accounts(pool: Money) -> tuple[Transfer, ...]:
    """Returns the transfers that begin a contest: the pool comes in and is halved (U10). Empty if the pool is 0."""
    attackers, defenders = halve(pool.units)
    found = (
        Transfer(TransferKind.FUNDED, OUTSIDE, POOL, pool.units),
        Transfer(TransferKind.HALVED, POOL, ATTACKERS, attackers),
        Transfer(TransferKind.HALVED, POOL, DEFENDERS, defenders),
    )
    return tuple(transfer for transfer in found if transfer.amount)


def prize_table(pool: Money, advances: Mapping[int, int], days: int = PRIZE_DAYS) -> dict[int, int]:
    """Returns what the defenders' half pays by the number of days unbroken, in smallest units.

    The last entry is the prize itself, for `days`. The others are advances: `advances` has a percentage of the half for
    each number of days. An advance is rounded down to a whole unit; the prize is what the advances leave.

    Raises:
        ValueError: an advance is not for 1 to `days` - 1 days, or the advances leave nothing.
    """
    half = halve(pool.units)[1]
    if any(not 0 < each < days for each in advances) or any(percent <= 0 for percent in advances.values()):
        raise ValueError(f"an advance is a positive percentage for 1 to {days - 1} days")
    if sum(advances.values()) >= _PERCENT:
        raise ValueError(f"advances of {sum(advances.values())} % leave nothing for the prize")
    table = {each: half * percent // _PERCENT for each, percent in sorted(advances.items())}
    return {**table, days: half - sum(table.values())}


def stake_by_board(books: Books, defences: Sequence[str], amount: int) -> tuple[Transfer, ...] | Problem:
    """Returns the transfers that stake a batch of defences from the attackers' half, or why they cannot be staked (U9).

    `amount` is the prize for breaking one of them. Either the whole batch is staked or none of it.
    """
    place = f"stake of {', '.join(defences)}"
    if not defences or len(set(defences)) < len(defences):
        return Problem(place, "a batch has to name at least one defence, and each only once")
    if (needed := amount * len(defences)) > (left := books.balance(ATTACKERS)):
        currency = books.currency
        has = f"the attackers' half has {format_units(left, currency)} left"
        what = f"{format_units(needed, currency)} are needed, and {has}"
        return Problem(place, what, "stake fewer defences, or let their teams stake them")
    transfers = tuple(Transfer(TransferKind.RESERVED, ATTACKERS, reserved(each), amount, each) for each in defences)
    return _if_possible(books, transfers)


def stake_by_team(books: Books, defence: str, paid: Money, prize: Money) -> tuple[Transfer, ...] | Problem:
    """Returns the transfer that makes a team's payment the stake on its defence, or why it cannot be made (U9).

    `prize` is the contest's prize for breaking a defence. The payment has to be exactly that amount.
    """
    if paid != prize:
        return Problem(f"stake of {defence}", f"{paid} were paid, and the stake is {prize}", "pay the exact amount")
    transfer = Transfer(TransferKind.STAKE_PAID, OUTSIDE, stake(defence), paid.units, defence)
    return _if_possible(books, (transfer,))


def settle_stake(
    books: Books, defence: StakedDefence, entrants: Entrants, now: datetime, days: int = PRIZE_DAYS
) -> tuple[Transfer, ...] | Waiting:
    """Returns the transfers that pay out or give back the stake on a defence; empty if that was already done.

    Only the first week in which the defence was broken counts. The teams that broke it in that week, with pictures
    received after the staking, share the stake (see `break_shares`). If none of them may get a prize, the stake goes to
    the attackers' half. If there is no such team, or the defence was not broken in `days`, the board's stake goes back
    to the attackers' half, and a team's stake to the team. While no picture broke it, the board has to confirm each
    rejection first (U11), because it may yet find a rejected picture valid.
    """
    account = _account_with_stake(books, defence.id)
    if not account:
        return ()
    breaks = [each for each in defence.breaks if each.received < defence.end(days)]
    if not breaks and now < defence.end(days):
        return Waiting((f"{defence.id} is staked until {defence.end(days).isoformat()}",))
    first = min((each.closes for each in breaks), default=None)
    undecided = [
        each
        for each in defence.unsettled
        if each.received < defence.end(days) and (first is None or (not each.ruled and each.closes <= first))
    ]
    if undecided:
        return _waiting([(defence, undecided)])
    paying = [each for each in breaks if each.closes == first and each.received >= defence.staked_at]
    if not paying:
        return end_stake(books, defence)
    amount = books.balance(account)
    shares = break_shares(amount, defence.team, paying, entrants)
    if not shares:
        return (Transfer(TransferKind.RELEASED, account, ATTACKERS, amount, defence.id),)
    return tuple(
        Transfer(TransferKind.BREAK_PRIZE, account, team_account(team), share, defence.id, team)
        for team, share in shares.items()
        if share
    )


def break_shares(amount: int, owner: str, breaks: Iterable[Break], entrants: Entrants) -> dict[str, int]:
    """Returns what each team gets of the prize for a defence that they broke in one week, in smallest units (U10).

    Teams get equal shares, however many pictures they have. Teams that share a person, directly or through other teams
    of that week, count as one and divide its share equally. The defence's own team, a team that shares a person with
    it, and a team with a person who gets no prize (U12) get nothing. The result is empty if no team gets a share.
    """
    receipts: dict[str, int] = {}
    for each in breaks:
        receipts[each.team] = min(each.receipt, receipts.get(each.team, each.receipt))
    teams = [
        team
        for team in sorted(receipts, key=lambda team: (receipts[team], team))
        if not entrants.share_person(team, owner) and not entrants.no_prize(team)
    ]
    claims = [
        Claim(team, team, receipts[team], Fraction(1, len(group)))
        for group in _related(teams, entrants)
        for team in group
    ]
    return split(amount, claims) if claims else {}


def defence_prize(
    books: Books, days: int, amount: int, defences: Iterable[StakedDefence], entrants: Entrants, now: datetime
) -> tuple[Transfer, ...] | Waiting:
    """Returns the awards to the first staked defences that were unbroken for this number of days, if there are any.

    The first ones are those whose days end earliest. Those whose days end at the same instant share `amount` equally
    (U10). A defence that was broken, is barred, or belongs to a team that gets no prize (U12) is passed over. Every
    picture that could break one of them before its days end has to be settled first, and the board has to confirm each
    rejection (U11). The prize for a number of days is awarded once; if the board withheld it from all who got it,
    other defences can win it.
    """
    given = [t for t in books.transfers.values() if t.kind is TransferKind.DEFENCE_PRIZE and t.days == days]
    if any(not books.is_withheld(transfer.id) for transfer in given):
        return ()
    withheld = {transfer.defence for transfer in given}
    by_end = sorted(
        (each for each in defences if each.end(days) <= now), key=lambda each: (each.staked_at, each.receipt)
    )
    for _, batch in groupby(by_end, key=lambda each: each.staked_at):
        unbroken = [
            each
            for each in batch
            if each.id not in withheld
            and not each.barred
            and not entrants.no_prize(each.team)
            and not any(found.received < each.end(days) for found in each.breaks)
        ]
        open_ = [(each, [p for p in each.unsettled if p.received < each.end(days)]) for each in unbroken]
        if any(pictures for _, pictures in open_):
            return _waiting(open_)
        if unbroken:
            return _defence_awards(unbroken, days, amount)
    return ()


def end_stake(books: Books, defence: StakedDefence) -> tuple[Transfer, ...]:
    """Returns the transfer that gives back the stake on a defence that no team is paid for; empty if there is none.

    A team's stake goes back to the team, the board's to the attackers' half.
    """
    account = _account_with_stake(books, defence.id)
    if not account:
        return ()
    amount = books.balance(account)
    if account == reserved(defence.id):
        return (Transfer(TransferKind.RELEASED, account, ATTACKERS, amount, defence.id),)
    target = team_account(defence.team)
    return (Transfer(TransferKind.STAKE_REFUNDED, account, target, amount, defence.id, defence.team),)


def pay(books: Books, award: str, reference: str) -> tuple[Transfer, ...] | Problem:
    """Returns the transfer that records that an award or a refund was paid, or why it cannot be recorded.

    The payment itself is made outside the software. `reference` identifies it, such as the number of a bank transfer;
    it is published.
    """
    if not reference.strip() or printable(reference, NOTE_LIMIT) != reference:
        return Problem(
            printable(award), "the payment needs a reference", f"write 1 to {NOTE_LIMIT} printing characters"
        )
    return _settle(books, TransferKind.PAID, award, reference)


def withhold(books: Books, award: str, reason: str) -> tuple[Transfer, ...] | Problem:
    """Returns the transfer by which the board withholds a prize, or why it cannot (U8). `reason` is published.

    A withheld break prize goes to the attackers' half, a defence's prize to the defenders'. A refund cannot be
    withheld: it is the team's own money.
    """
    if not reason.strip() or len(reason) > REASON_LIMIT:
        return Problem(printable(award), "the decision needs a reason", f"write 1 to {REASON_LIMIT} characters")
    return _settle(books, TransferKind.WITHHELD, award, reason)


def end_contest(
    books: Books, table: Mapping[int, int], defences: Sequence[StakedDefence], entrants: Entrants, now: datetime
) -> tuple[Transfer, ...] | Waiting:
    """Returns the transfers that end a contest: due prizes, stakes of unbroken defences, the rest of both halves.

    Returns `Waiting` while a picture that a prize or a stake depends on is unsettled, or its rejection not confirmed
    (U11). Awards stay in the teams' accounts until they are paid. `table` is that of `prize_table`.
    """
    due: list[Transfer] = []
    reasons: list[str] = []
    days = max(table, default=PRIZE_DAYS)
    for each_days, amount in table.items():
        prize = defence_prize(books, each_days, amount, defences, entrants, now)
        reasons += prize.reasons if isinstance(prize, Waiting) else ()
        due += prize if not isinstance(prize, Waiting) else ()
    for defence in defences:
        stake_ = settle_stake(books, defence, entrants, max(now, defence.end(days)), days)
        reasons += stake_.reasons if isinstance(stake_, Waiting) else ()
        due += stake_ if not isinstance(stake_, Waiting) else ()
    if reasons:
        return Waiting(tuple(dict.fromkeys(reasons)))
    after = books.post_all(due)
    if isinstance(after, Problem):
        raise ValueError(f"the books do not fit what happened: {after}")  # noqa: TRY004  a mistake of the caller
    return (*due, *return_halves(after))


def return_halves(books: Books) -> tuple[Transfer, ...]:
    """Returns the transfers by which the rest of both halves goes back to the organizers when the contest is over.

    A prize that the board withholds after that is returned too: a defence that was staked then can win it no more.
    """
    due = []
    for half in (ATTACKERS, DEFENDERS):
        if left := books.balance(half):
            before = sum(t.kind is TransferKind.RETURNED and t.source == half for t in books.transfers.values())
            note = str(before + 1) if before else ""
            due.append(Transfer(TransferKind.RETURNED, half, OUTSIDE, left, note=note))
    return tuple(due)


def _settle(books: Books, kind: TransferKind, award: str, note: str) -> tuple[Transfer, ...] | Problem:
    if (found := books.transfers.get(award)) is None:
        return Problem(printable(award), "there is no such award", "look up its id in the statement of accounts")
    target = OUTSIDE
    if kind is TransferKind.WITHHELD:
        target = DEFENDERS if found.kind is TransferKind.DEFENCE_PRIZE else ATTACKERS
    transfer = Transfer(
        kind, found.target, target, found.amount, found.defence, found.team, found.days, award=award, note=note
    )
    return _if_possible(books, (transfer,))


def _if_possible(books: Books, transfers: tuple[Transfer, ...]) -> tuple[Transfer, ...] | Problem:
    after = books.post_all(transfers)
    return after if isinstance(after, Problem) else transfers


def _account_with_stake(books: Books, defence: str) -> str:
    """Returns the account that holds the stake on a defence; "" if there is none."""
    return next((each for each in (reserved(defence), stake(defence)) if books.balance(each)), "")


def _waiting(unsettled: Iterable[tuple[StakedDefence, Sequence[Unsettled]]]) -> Waiting:
    return Waiting(tuple(f"{defence.id}: {p.picture} {p.reason}" for defence, pictures in unsettled for p in pictures))


def _defence_awards(defences: Sequence[StakedDefence], days: int, amount: int) -> tuple[Transfer, ...]:
    shares = split(amount, [Claim(each.id, each.team, each.receipt) for each in defences])
    return tuple(
        Transfer(
            TransferKind.DEFENCE_PRIZE, DEFENDERS, team_account(each.team), shares[each.id], each.id, each.team, days
        )
        for each in defences
        if shares[each.id]
    )


def _related(teams: Sequence[str], entrants: Entrants) -> Iterator[list[str]]:
    """Yields the groups of teams that share a person, directly or through others of the group."""
    left = list(teams)
    while left:
        group = [left.pop(0)]
        for member in group:  # the loop also visits the teams that it appends
            related = [team for team in left if entrants.share_person(member, team)]
            group += related
            left = [team for team in left if team not in related]
        yield group
