"""Who gets what in the unrestricted contest (U9, U10, U11, U12)."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import Problem
from orchestrator.formats.unrestricted.money import (
    ATTACKERS,
    DEFENDERS,
    OUTSIDE,
    POOL,
    Books,
    Money,
    Transfer,
    TransferKind,
    reserved,
    stake,
)
from orchestrator.formats.unrestricted.prizes import (
    Break,
    Entrants,
    StakedDefence,
    Unsettled,
    Waiting,
    break_shares,
    defence_prize,
    end_contest,
    end_stake,
    open_accounts,
    pay,
    prize_table,
    return_halves,
    settle_stake,
    stake_by_board,
    stake_by_team,
    withhold,
)

START = datetime(2027, 1, 2, tzinfo=UTC)
DAY = timedelta(days=1)
PRIZE = Money(10_000, "EUR")
TABLE = prize_table(Money(100_001, "EUR"), {30: 10})


def _entrants(barred=(), **people: str) -> Entrants:
    """Returns teams by their people, a letter each; a team that is not named has a person of its own."""
    known = {team: frozenset({team}) for team in ("owner", "t1", "t2", "t3", "t4")}
    known.update({team: frozenset(letters) for team, letters in people.items()})
    return Entrants(known, dict.fromkeys(barred, "an organizer"))


def _break(team: str, day: float, receipt: int = 0) -> Break:
    """Returns a break by a picture that was received so many days after the staking; weeks are of seven days."""
    closes = START + (day // 7 + 1) * 7 * DAY
    return Break(team, receipt or int(day * 100) + 1000, START + day * DAY, closes)


def _unsettled(day: float, *, ruled: bool = False) -> Unsettled:
    return Unsettled("p1", START + day * DAY, START + (day // 7 + 1) * 7 * DAY, "is being rated", ruled)


def _posted(books: Books, transfers) -> Books:
    assert isinstance(transfers, tuple), transfers
    after = books.post_all(transfers)
    assert isinstance(after, Books), after
    return after


@pytest.fixture
def opened() -> Books:
    """Books of a contest with a pool of 1000.01 EUR."""
    return _posted(Books("EUR"), open_accounts(Money(100_001, "EUR")))


@pytest.fixture
def staked(opened) -> Books:
    """The board staked `d1` and its team staked `d2`, with 100.00 EUR each."""
    books = _posted(opened, stake_by_board(opened, ["d1"], PRIZE.units))
    return _posted(books, stake_by_team(books, "d2", PRIZE, PRIZE))


def _defence(id_: str = "d1", team: str = "owner", *breaks: Break, day: float = 0, **more) -> StakedDefence:
    return StakedDefence(id_, team, int(id_[1:]), START + day * DAY, breaks, **more)


def test_the_pool_is_halved(opened) -> None:
    """U10: each side has half of the pool, the attackers the odd cent."""
    assert (opened.balance(POOL), opened.balance(ATTACKERS), opened.balance(DEFENDERS)) == (0, 50_001, 50_000)
    assert open_accounts(Money(0, "EUR")) == ()


def test_staking_fails_when_the_half_is_spent(opened) -> None:
    """U9: a batch that the attackers' half cannot cover is refused as a whole."""
    books = _posted(opened, stake_by_board(opened, ["d1", "d2", "d3"], PRIZE.units))
    problem = stake_by_board(books, ["d4", "d5", "d6"], PRIZE.units)
    assert isinstance(problem, Problem)
    assert problem.what == "300.00 EUR are needed, and the attackers' half has 200.01 EUR left"
    books = _posted(books, stake_by_board(books, ["d4", "d5"], PRIZE.units))
    assert books.balance(ATTACKERS) == 1


def test_a_team_pays_exactly_the_prize(opened) -> None:
    """U9: a stake is the prize for breaking the defence, not a cent more or less, in the contest's currency."""
    for paid in (Money(9_999, "EUR"), Money(10_001, "EUR"), Money(10_000, "USD")):
        assert isinstance(stake_by_team(opened, "d1", paid, PRIZE), Problem)
    books = _posted(opened, stake_by_team(opened, "d1", PRIZE, PRIZE))
    assert books.balance(stake("d1")) == PRIZE.units
    assert isinstance(stake_by_team(books, "d1", PRIZE, PRIZE), Problem)
    assert isinstance(stake_by_board(books, ["d1"], PRIZE.units), Problem)


def test_a_broken_defence_pays_the_teams_of_the_first_week(staked) -> None:
    """U10: teams share equally, however many pictures they have; who breaks it in a later week gets nothing."""
    breaks = [_break("t1", 8), _break("t1", 8.5), _break("t2", 9), _break("t3", 7.5), _break("t4", 15)]
    books = _posted(staked, settle_stake(staked, _defence("d1", "owner", *breaks), _entrants(), START + 40 * DAY))
    assert [books.balance(f"team:t{n}") for n in (1, 2, 3, 4)] == [3333, 3333, 3334, 0]
    assert books.balance(reserved("d1")) == 0


def test_a_teams_stake_is_the_prize(staked) -> None:
    """U9: who breaks a defence that its team staked gets that stake, and the attackers' half is not touched."""
    books = _posted(
        staked, settle_stake(staked, _defence("d2", "owner", _break("t1", 3)), _entrants(), START + 9 * DAY)
    )
    assert (books.balance("team:t1"), books.balance(stake("d2"))) == (10_000, 0)
    assert books.balance(ATTACKERS) == staked.balance(ATTACKERS)


@pytest.mark.parametrize("unsettled", [_unsettled(2), _unsettled(6.9)])
def test_a_break_waits_for_the_other_pictures_of_its_week(staked, unsettled) -> None:
    """U10: who shares is known when every picture of that week or an earlier one is settled."""
    defence = _defence("d1", "owner", _break("t1", 3), unsettled=(unsettled,))
    assert settle_stake(staked, defence, _entrants(), START + 9 * DAY) == Waiting(("d1: p1 is being rated",))


@pytest.mark.parametrize("unsettled", [_unsettled(7), _unsettled(2, ruled=True)])
def test_a_break_waits_for_nothing_else(staked, unsettled) -> None:
    """Later pictures cannot change who shares, and U11 holds up prizes of defences only."""
    defence = _defence("d1", "owner", _break("t1", 3), unsettled=(unsettled,))
    assert isinstance(settle_stake(staked, defence, _entrants(), START + 9 * DAY), tuple)


@pytest.mark.parametrize(("id_", "breaker"), [("d1", "owner"), ("d2", "owner"), ("d1", "t1"), ("d2", "t1")])
def test_nobody_is_paid_for_breaking_their_own(staked, id_, breaker) -> None:
    """A defence broken by its own team or one that shares a person pays nobody; the attackers' half gets the stake."""
    entrants = _entrants(owner="ab", t1="bc")
    books = _posted(staked, settle_stake(staked, _defence(id_, "owner", _break(breaker, 3)), entrants, START + 9 * DAY))
    assert books.balance(ATTACKERS) == staked.balance(ATTACKERS) + PRIZE.units
    assert books.balance(f"team:{breaker}") == 0


def test_a_person_in_two_teams_counts_once() -> None:
    """Teams that share a person divide one share, also through a third, and the others' shares stay whole."""
    breaks = [_break("t1", 1), _break("t2", 2), _break("t3", 3), _break("t4", 4)]
    assert break_shares(12_000, "owner", breaks, _entrants()) == {f"t{n}": 3000 for n in (1, 2, 3, 4)}
    shares = break_shares(12_000, "owner", breaks, _entrants(t1="ab", t2="cd", t3="bc"))
    assert shares == {"t1": 2000, "t2": 2000, "t3": 2000, "t4": 6000}


def test_organizers_and_board_members_have_no_share(staked) -> None:
    """U12: a team with an organizer or a board member gets nothing for a break, and the others share all."""
    entrants = _entrants(barred=("x",), t1="ax")
    breaks = [_break("t1", 1), _break("t2", 2)]
    assert break_shares(10_000, "owner", breaks, entrants) == {"t2": 10_000}
    books = _posted(staked, settle_stake(staked, _defence("d1", "owner", breaks[0]), entrants, START + 9 * DAY))
    assert books.balance(ATTACKERS) == staked.balance(ATTACKERS) + PRIZE.units
    assert entrants.no_prize("t1") == "an organizer is in the team"


def test_a_picture_from_before_the_staking_pays_nothing(staked) -> None:
    """U4: a break by a picture received before the staking is unpaid; the team's stake goes back, the board's too."""
    broken = [_break("t1", -8)]
    books = _posted(staked, settle_stake(staked, _defence("d2", "owner", *broken), _entrants(), START + 9 * DAY))
    assert (books.balance("team:owner"), books.balance("team:t1")) == (10_000, 0)
    books = _posted(staked, settle_stake(staked, _defence("d1", "owner", *broken), _entrants(), START + 9 * DAY))
    assert books.balance(ATTACKERS) == staked.balance(ATTACKERS) + PRIZE.units


def test_an_unbroken_defence_gives_its_stake_back_after_90_days(staked) -> None:
    """U9: after 90 x 24 hours a team's stake is refunded, once every picture received before the end is settled."""
    defence = _defence("d2", "owner", _break("t1", 90))
    assert isinstance(settle_stake(staked, defence, _entrants(), START + 90 * DAY - DAY / 10**6), Waiting)
    late = _defence("d2", unsettled=(_unsettled(89.9),))
    assert isinstance(settle_stake(staked, late, _entrants(), START + 120 * DAY), Waiting)
    books = _posted(staked, settle_stake(staked, defence, _entrants(), START + 90 * DAY))
    assert books.balance("team:owner") == PRIZE.units
    assert settle_stake(books, defence, _entrants(), START + 90 * DAY) == ()
    assert [transfer.kind for transfer in books.unpaid()] == [TransferKind.STAKE_REFUNDED]


def test_a_withdrawn_defence_gives_its_stake_back(staked) -> None:
    """U9: a team that withdraws before publication gets back what it paid, once."""
    books = _posted(staked, end_stake(staked, _defence("d2")))
    assert books.balance("team:owner") == PRIZE.units
    assert end_stake(books, _defence("d2")) == ()


def test_advances_are_of_the_same_half() -> None:
    """U10: prizes for fewer days and the prize itself are the defenders' half together, to the cent."""
    assert TABLE == {30: 5000, 90: 45_000}
    assert prize_table(Money(2003, "JPY"), {60: 33, 30: 10}) == {30: 100, 60: 330, 90: 571}
    for advances in ({90: 10}, {0: 10}, {30: 0}, {30: 50, 60: 50}):
        with pytest.raises(ValueError, match="advance"):
            prize_table(PRIZE, advances)


def test_the_first_unbroken_batch_shares_the_prize(staked) -> None:
    """U10: the defences of the batch whose 90 days end first share, odd cents by receipt; later batches get nothing."""
    defences = [
        _defence("d4", "t4", day=-1),
        _defence("d3", "t3"),
        _defence("d1", "t1"),
        _defence("d2", "t2", _break("t3", 89)),
        _defence("d5", "t4", _break("t3", 3), day=-3),
    ]
    defences[0] = _defence("d4", "t4", _break("t1", 88.9), day=-1)
    assert defence_prize(staked, 90, TABLE[90], defences, _entrants(), START + 90 * DAY - DAY / 10**6) == ()
    assert len(defence_prize(staked, 90, TABLE[90], defences, _entrants(), START + 90 * DAY)) == 2
    books = _posted(staked, defence_prize(staked, 90, 45_001, defences, _entrants(), START + 100 * DAY))
    assert [books.balance(f"team:t{n}") for n in (1, 2, 3, 4)] == [22_501, 0, 22_500, 0]
    assert defence_prize(books, 90, TABLE[90], defences, _entrants(), START + 100 * DAY) == ()


@pytest.mark.parametrize(
    "unsettled", [_unsettled(89.9), _unsettled(3, ruled=True)], ids=["not ruled on", "not confirmed"]
)
def test_the_prize_waits_for_every_picture(staked, unsettled) -> None:
    """U11: no prize, for a later batch either, while a picture against one of the first is unsettled or unconfirmed."""
    defences = [_defence("d1", "t1"), _defence("d2", "t2", unsettled=(unsettled,)), _defence("d3", "t3", day=1)]
    waiting = defence_prize(staked, 90, TABLE[90], defences, _entrants(), START + 100 * DAY)
    assert waiting == Waiting(("d2: p1 is being rated",))


def test_a_defence_keeps_its_advance(staked) -> None:
    """U10: a defence that is broken on day 45 keeps the prize for 30 days and does not get the one for 90."""
    defences = [_defence("d1", "t1", _break("t2", 45)), _defence("d2", "t3", day=2)]
    books = _posted(staked, defence_prize(staked, 30, TABLE[30], defences, _entrants(), START + 50 * DAY))
    assert (books.balance("team:t1"), books.balance("team:t3")) == (5000, 0)
    books = _posted(books, defence_prize(books, 90, TABLE[90], defences, _entrants(), START + 95 * DAY))
    assert (books.balance("team:t1"), books.balance("team:t3")) == (5000, 45_000)
    assert books.balance(DEFENDERS) == 0


def test_a_defence_that_gets_no_prize_is_passed_over(staked) -> None:
    """U12: the prize goes to the next where the first is an organizer's, is closed, or had its prize withheld."""
    entrants = _entrants(barred=("x",), t1="x")
    defences = [
        _defence("d1", "t1"),
        _defence("d3", "t3", day=1, barred="its code is closed"),
        _defence("d2", "t2", day=2),
    ]
    books = _posted(staked, defence_prize(staked, 90, TABLE[90], defences, entrants, START + 100 * DAY))
    assert books.balance("team:t2") == TABLE[90]
    defences.append(_defence("d4", "t4", day=3))
    books = _posted(books, withhold(books, "defence_prize:90:d2", "the weights were copied"))
    assert (books.balance("team:t2"), books.balance(DEFENDERS)) == (0, 50_000)
    books = _posted(books, defence_prize(books, 90, TABLE[90], defences, entrants, START + 100 * DAY))
    assert books.balance("team:t4") == TABLE[90]


def test_a_prize_is_paid_or_withheld_once(staked) -> None:
    """U8, U10: what was paid, with a reference, can be neither paid again nor withheld; no refund can be withheld."""
    books = _posted(
        staked, settle_stake(staked, _defence("d1", "owner", _break("t1", 3)), _entrants(), START + 9 * DAY)
    )
    for note in ("", " ", "a\x1bb", "x" * 201):
        assert isinstance(pay(books, "break_prize:d1:t1", note), Problem)
    paid = _posted(books, pay(books, "break_prize:d1:t1", "bank 17"))
    assert (paid.balance("team:t1"), paid.unpaid()) == (0, [])
    assert isinstance(pay(paid, "break_prize:d1:t1", "bank 18"), Problem)
    assert isinstance(withhold(paid, "break_prize:d1:t1", "cheating"), Problem)
    assert isinstance(pay(books, "break_prize:d1:t2", "bank 17"), Problem)
    for reason in ("", " ", "x" * 2001):
        assert isinstance(withhold(books, "break_prize:d1:t1", reason), Problem)
    back = _posted(books, withhold(books, "break_prize:d1:t1", "They cheated:\n" + "x" * 1986))
    assert (back.balance("team:t1"), back.balance(ATTACKERS)) == (0, 50_001)
    refunded = _posted(staked, end_stake(staked, _defence("d2")))
    assert isinstance(withhold(refunded, "stake_refunded:d2", "cheating"), Problem)


def test_the_end_gives_everything_back(staked) -> None:
    """U9: when the contest ends, stakes of unbroken defences and what is left of both halves go back."""
    defences = [_defence("d1"), _defence("d2")]
    now = START + 50 * DAY
    books = _posted(staked, end_contest(staked, {90: 50_000}, defences, _entrants(), now))
    assert {account: units for account, units in books.balances.items() if units} == {
        OUTSIDE: -10_000,
        "team:owner": 10_000,
    }
    assert end_contest(books, {90: 50_000}, defences, _entrants(), now) == ()


@pytest.mark.parametrize("id_", ["d1", "d2"])
@pytest.mark.parametrize("ruled", [False, True])
def test_the_end_waits_for_pictures(staked, id_, ruled) -> None:
    """A stake that a picture may still cost is not given back at the end, nor one with rejections to confirm."""
    defence = _defence(id_, unsettled=(_unsettled(3, ruled=ruled),))
    waiting = end_contest(staked, TABLE, [defence], _entrants(), START + 50 * DAY)
    assert waiting == Waiting((f"{id_}: p1 is being rated",))


def test_what_is_withheld_after_the_end_goes_back(staked) -> None:
    """A prize that is withheld after the contest ended is returned, however often that happens."""
    defences = [_defence("d1", "owner", _break("t1", 3))]
    books = _posted(staked, end_contest(staked, TABLE, defences, _entrants(), START + 50 * DAY))
    books = _posted(books, withhold(books, "break_prize:d1:t1", "cheating"))
    books = _posted(books, return_halves(books))
    assert (books.balance(ATTACKERS), books.balance("team:t1")) == (0, 0)
    assert [each for each in books.transfers if each.startswith("returned:")] == [
        "returned:attackers:1",
        "returned:defenders:1",
        "returned:attackers:2",
    ]


def test_the_odd_cent_is_for_the_earliest_and_an_organizer_gets_none(staked) -> None:
    """The three teams that may share 100.00 EUR get 33.34 and twice 33.33; the one with an organizer gets nothing."""
    entrants = _entrants(barred=("x",), t4="x")
    breaks = [_break("t1", 1.1), _break("t2", 1.2), _break("t3", 1), _break("t4", 0.5)]
    due = settle_stake(staked, _defence("d1", "owner", *breaks), entrants, START + 9 * DAY)
    assert isinstance(due, tuple)
    assert [(transfer.team, transfer.amount) for transfer in due] == [("t3", 3334), ("t1", 3333), ("t2", 3333)]


TEAMS = ("owner", "t1", "t2", "t3", "t4")
BREAKS = st.lists(
    st.builds(_break, st.sampled_from(TEAMS), st.integers(0, 99).map(float), st.integers(1, 99)), max_size=4
)
DEFENCES = st.lists(
    st.tuples(st.sampled_from(TEAMS), BREAKS, st.integers(0, 20), st.booleans(), st.booleans()), min_size=1, max_size=8
)
PEOPLE = st.fixed_dictionaries(
    {team: st.frozensets(st.sampled_from("abcdefgh"), min_size=1, max_size=3) for team in TEAMS}
)


@settings(max_examples=60)
@given(
    st.integers(0, 10**6),
    st.lists(st.tuples(st.sampled_from(TEAMS), st.integers(1, 99)), max_size=10),
    PEOPLE,
    st.randoms(use_true_random=False),
)
def test_shares_are_equal_and_do_not_depend_on_the_order(amount, broke, people, random) -> None:
    """Groups of teams that share a person get equal shares, to a unit for each team, however breaks are ordered."""
    entrants = Entrants(people, {"a": "an organizer"})
    breaks = [_break(team, 1.0, receipt) for team, receipt in broke]
    shares = break_shares(amount, "owner", breaks, entrants)
    assert break_shares(amount, "owner", random.sample(breaks, len(breaks)), entrants) == shares
    may = {team for team in dict(broke) if not people[team] & (people["owner"] | {"a"}) and team != "owner"}
    assert set(shares) == may
    groups = _connected(may, people)
    for group in groups:
        assert abs(sum(shares[team] for team in group) - Fraction(amount, len(groups))) < len(group)
    assert sum(shares.values()) == (amount if may else 0)
    if may and len(groups) == len(may):
        first = {team: min(receipt for name, receipt in broke if name == team) for team in may}
        by_receipt = [shares[team] for team in sorted(may, key=lambda team: (first[team], team))]
        assert by_receipt == sorted(by_receipt, reverse=True)


def _connected(teams: set[str], people: dict[str, frozenset[str]]) -> list[set[str]]:
    """Returns the groups of teams that share people, by merging the groups that each person connects."""
    groups = [{team} for team in sorted(teams)]
    for person in sorted(frozenset().union(*people.values())):
        touched = [group for group in groups if any(person in people[team] for team in group)]
        groups = [group for group in groups if group not in touched] + ([set().union(*touched)] if touched else [])
    return groups


@pytest.mark.slow
@settings(max_examples=40)
@given(
    DEFENCES,
    PEOPLE,
    st.sampled_from(["JPY", "EUR", "KWD"]),
    st.integers(0, 10_000),
    st.dictionaries(st.integers(1, 89), st.integers(1, 20), max_size=4),
    st.randoms(use_true_random=False),
)
def test_money_is_never_lost_or_made(played, people, currency, units, advances, random) -> None:
    """In random contests all accounts sum to 0 after every transfer, and every unit ends with a team or outside."""
    entrants = Entrants(people, {"a": "an organizer"})
    pool, prize = Money(units, currency), Money(max(1, units // 7), currency)
    table, books = prize_table(pool, advances), _posted(Books(currency), open_accounts(pool))
    defences, paid_in = [], units
    for number, (team, breaks, day, by_team, barred) in enumerate(played):
        id_ = f"d{number}"
        stake_ = stake_by_team(books, id_, prize, prize) if by_team else stake_by_board(books, [id_], prize.units)
        if isinstance(stake_, Problem):
            continue
        books, paid_in = _posted(books, stake_), paid_in + prize.units * by_team
        defences.append(_defence(id_, team, *breaks, day=float(day), barred="closed" if barred else ""))
    for day in range(0, 120, 10):
        now = START + day * DAY
        for defence in defences:
            breaks = tuple(each for each in defence.breaks if each.closes <= now)
            result = settle_stake(books, _defence(defence.id, defence.team, *breaks), entrants, now)
            books = _posted(books, result) if isinstance(result, tuple) else books
        for days, amount in table.items():
            books = _posted(books, defence_prize(books, days, amount, defences, entrants, now))
        for award in books.unpaid():
            settle = withhold if random.random() < 0.2 and award.kind is not TransferKind.STAKE_REFUNDED else pay
            books = _posted(books, settle(books, award.id, "note"))
            assert isinstance(settle(books, award.id, "note"), Problem)
    books = _posted(books, end_contest(books, table, defences, entrants, START + 120 * DAY))
    _check_ledger(books, entrants)
    held = {account: held for account, held in books.balances.items() if held and account != OUTSIDE}
    assert all(account.startswith("team:") for account in held)
    assert sum(t.amount for t in books.transfers.values() if t.source == OUTSIDE) == paid_in


def _check_ledger(books: Books, entrants: Entrants) -> None:
    """Asserts the sum and the balances after every transfer, and who got prizes."""
    balances: dict[str, int] = {}
    transfers: list[Transfer] = list(books.transfers.values())
    for transfer in transfers:
        for account, change in transfer.entries():
            balances[account] = balances.get(account, 0) + change
        assert sum(balances.values()) == 0
        assert all(held >= 0 for account, held in balances.items() if account != OUTSIDE)
        if transfer.kind in (TransferKind.BREAK_PRIZE, TransferKind.DEFENCE_PRIZE):
            assert not entrants.no_prize(transfer.team)
    assert balances == dict(books.balances)
