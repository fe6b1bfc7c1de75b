"""Random contests over 40 weeks, in which clocks change twice: what holds at every point of them."""

import random
import sys
from datetime import UTC, datetime, timedelta
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.domain import contest_events
from orchestrator.domain.contest_events import PersonRecord, Role
from orchestrator.domain.events import parse_core_event
from orchestrator.formats.unrestricted import commands, events
from orchestrator.formats.unrestricted.fold import fold
from orchestrator.formats.unrestricted.money import OUTSIDE
from orchestrator.formats.unrestricted.recusal import ConflictSource
from orchestrator.formats.unrestricted.state import ANSWERING, HELD, PictureStatus
from orchestrator.formats.unrestricted.visibility import is_recused, visible_pictures

from .simulated_contest import BICYCLE, BIRD, RULES, SimulatedContest, answers, handle

WEEKS = 40
LAST_DAY = "2028-08-31"
"""A day after the weeks in which people do what they like."""
TEAMS = ("owls", "foxes", "wolves", "cats")
PEOPLE = {"b1": "one@uni.example", "b2": "two@lab.example", "b3": "three@firm.example", "b4": "four@owls.example"}
MEMBERS = tuple(PEOPLE)
KINDS = {each.model_fields["kind"].default: each for each in events.EVENT_TYPES}
RATINGS = (answers(), answers(), answers(BICYCLE), answers(sure=False), answers(side=60), None)


class RandomContest(SimulatedContest):
    """A contest in which people do what they like; what the rules do not allow is refused.

    `order` shuffles the pictures about which a defence is asked at once; without it they come in their own order.
    """

    def __init__(self, order: random.Random | None = None) -> None:
        super().__init__(
            RULES | {"appeal_days": 14, "last_day": LAST_DAY, "prizes": RULES["prizes"] | {"advances": {30: 10}}},
            datetime(2027, 9, 6, tzinfo=UTC),
        )
        self.add_board(**PEOPLE)
        self.add_attackers(*TEAMS)
        self.counter, self.order = 0, order

    def do(self, action: str, one: int, two: int) -> None:
        """Does one thing; `one` and `two` choose whom and what it is about."""
        getattr(self, f"do_{action}")(one, two)

    def next_number(self) -> int:
        """Returns a number that was not used yet."""
        self.counter += 1
        return self.counter

    def chosen(self, names, number: int):
        """Returns one of some names, None where there is none."""
        names = list(names)
        return names[number % len(names)] if names else None

    def do_publish(self, one: int, two: int) -> None:
        """Receives a defence, and lets the board and a test decide about it."""
        team = self.chosen(TEAMS, one)
        name = f"d{self.next_number()}"
        self.receive_defence(name, team)
        voters = [each for each in MEMBERS if not self.vote(f"readable:{name}", each)][: 2 + two % 3]
        result = commands.decide_readability(self.state, self.now, "desk", name, readable=True, reason="It is plain.")
        if len(voters) > 1 and not self.done(result):
            self.test(name)

    def do_stake(self, one: int, two: int) -> None:
        """Stakes a defence, by its team or by the board."""
        names = [each.id for each in self.state.defences.values() if each.status == "published"]
        if names and one % 4 == 0:
            paid = commands.record_stake_payment(self.state, self.now, "desk", self.chosen(names, two), "transfer")
            self.done(paid)
        elif names:
            batch = names[: 1 + two % 2]
            self.vote(f"stake:{'+'.join(sorted(batch))}", *MEMBERS)
            criteria = dict.fromkeys(batch, "It is easy to run.")
            self.done(commands.stake_by_board(self.state, self.now, "desk", f"b-{self.next_number()}", criteria))

    def do_upload(self, one: int, _: int) -> None:
        """Submits a picture."""
        self.upload(self.next_number(), self.chosen(TEAMS, one))

    def do_answer(self, one: int, two: int) -> None:
        """Notes what a defence answers to all that it was not asked about."""
        defence = self.chosen(self.state.defences, one)
        if defence is None:
            return
        for pictures in self.state.closed_weeks.values():
            asked = [each for each in pictures if self.state.is_asked(self.state.defences[defence], [each])]
            labels = (BIRD, None, BIRD, BICYCLE, BIRD)
            given = {each: labels[(int(each, 16) + two) % len(labels)] for each in asked}
            if self.order is not None:
                for each in self.order.sample(asked, len(asked)):
                    self.must(self.record_answers(defence, {each: given[each]}))
            elif given:
                self.must(self.record_answers(defence, given))

    def do_rate(self, one: int, two: int) -> None:
        """Lets raters answer about what they are asked."""
        asked = [int(each.id, 16) for each in self.state.pictures.values() if each.status is PictureStatus.RATING]
        for picture in asked:
            given = RATINGS[(picture * 7 + two) % len(RATINGS)]
            for rater in range(one % 4, 5):
                body = {"picture": handle(picture), "rater": f"r{rater}", "answers": given}
                self.propose(events.PictureRated(actor="r", **body))
        for appeal in self.state.open_appeals:
            for rater in range(5):
                body = {"picture": self.state.appeals[appeal].picture, "appeal": appeal, "rater": f"p{rater}"}
                given = RATINGS[(one + rater // 4) % 5]
                self.propose(events.PictureRated(actor="p", answers=given, **body))

    def do_appeal(self, one: int, two: int) -> None:
        """Lets teams appeal, and calls a panel."""
        ruled = [each for each in self.state.unsettled if self.state.pictures[each].ruled_at]
        for picture in ruled[one % 3 :]:
            for team in TEAMS:
                self.appeal(self.next_number(), int(picture, 16), team)
        if appeal := self.chosen(self.state.open_appeals, two):
            member = self.chosen(MEMBERS, one)
            self.propose(events.PanelCalled(actor=member, appeal=appeal, member=member))

    def do_decide(self, one: int, two: int) -> None:
        """Lets the board decide about appeals, rulings and reports."""
        outcome = self.chosen((BIRD, BICYCLE, None), one)
        if appeal := self.chosen(self.state.open_appeals, two):
            self.vote(f"appeal:{appeal}:{outcome or 'invalid'}", *MEMBERS)
            self.done(commands.rule_on_appeal(self.state, self.now, "desk", appeal, outcome, "We looked at it."))
        if (picture := self.chosen(self.state.pictures, one + two)) and one % 3 == 0:
            self.vote(f"overrule:{picture}:{outcome or 'invalid'}", *MEMBERS[two % 2 :])
            self.done(commands.overrule(self.state, self.now, "desk", picture, outcome, "We looked at it."))
        for each in list(self.state.unsettled):
            self.vote(f"report:{each}:show", *MEMBERS)
            self.done(commands.decide_report(self.state, self.now, "desk", each, withhold=False, reason="Harmless."))

    def do_confirm(self, one: int, two: int) -> None:
        """Confirms rejections (U11)."""
        for defence in self.state.defences.values():
            for picture in self.state.worklist(defence) if defence.staked_at else ():
                member = self.chosen(MEMBERS, one + two)
                body = {"defence": defence.id, "picture": picture}
                self.propose(events.RejectionConfirmed(actor=member, member=member, **body))

    def do_pay(self, one: int, two: int) -> None:
        """Pays an award, or withholds it."""
        if award := self.chosen([each.id for each in self.state.books.unpaid()], one):
            if two % 3 == 0:
                self.vote(f"withhold:{award}", *MEMBERS)
                self.done(commands.withhold_prize(self.state, self.now, "desk", award, "They cheated."))
            self.propose(events.PrizePaid(actor="desk", award=award, reference="transfer"))

    def do_conflict(self, one: int, two: int) -> None:
        """Declares a conflict, and waives one."""
        member, team = self.chosen(MEMBERS, one), self.chosen(TEAMS, two)
        source = self.chosen(ConflictSource, one + two)
        self.done(commands.record_conflict(self.state, self.now, member, member, team, source))
        by = self.chosen(MEMBERS, two)
        body = {"member": member, "team": team, "by": by, "reason": "No."}
        self.propose(events.ConflictWaived(actor=by, **body))

    def do_board(self, one: int, two: int) -> None:
        """Takes the role of the board away, or gives it back and seats the member, also under another name."""
        member = self.chosen(MEMBERS, one)
        if member in self.state.board.members:
            if two % 4 == 0:
                self.revoke_board(PEOPLE[member])
            return
        self.grant_board(PEOPLE[member])
        assert self.seat("other", PEOPLE[member]) != []
        self.must(self.seat(member, PEOPLE[member]))
        self.tick()

    def do_outside(self, one: int, two: int) -> None:
        """Seats somebody from outside for a case, or takes the role away again."""
        name, waiting = f"x{one % 3}", [f"appeal:{each}" for each in self.state.open_appeals]
        waiting += [f"overrule:{each}" for each in self.state.rejected]
        if (case := self.chosen(waiting, two)) and name not in self.state.board.seated:
            self.grant_board(f"{name}@far.example")
            self.seat(name, f"{name}@far.example", case)
            for outcome in (BIRD, "invalid"):
                self.vote(f"{case}:{outcome}", name)
        elif two % 2:
            self.revoke_board(f"{name}@far.example")

    def do_organize(self, one: int, two: int) -> None:
        """Makes somebody an organizer."""
        if one % 5 == 0:
            team = self.chosen(TEAMS, two)
            person = PersonRecord(id=f"{team}@{team}.example", name="One")
            self.append(contest_events.RoleGranted(actor="desk", person=person, role=Role.ORGANIZER))

    def do_leave(self, one: int, _: int) -> None:
        """Withdraws a defence."""
        if (defence := self.chosen(self.state.defences, one)) and one % 5 == 0:
            self.append(contest_events.SubmissionWithdrawn(actor="desk", id=defence, reason="We found a mistake."))

    def finish(self) -> None:
        """Lets everybody do what waits for them, until the contest is over; members without a conflict join the board.

        One of these confirms rejections, and so votes about no picture.
        """
        voters = [f"n{number}" for number in range(6)]
        self.add_board(**{each: f"{each}@{each}.example" for each in (*voters, "confirmer")})
        for _ in range(WEEKS):
            if self.state.is_over:
                return
            self.wait(days=7)
            for week, defences in self.state.weeks_to_ask().items():
                for each in defences:
                    asked = [
                        p for p in self.state.closed_weeks[week] if self.state.is_asked(self.state.defences[each], [p])
                    ]
                    self.must(self.record_answers(each, dict.fromkeys(asked, BIRD)))
            for each in list(self.state.unsettled):
                self.rate(int(each, 16), raters=[f"late{number}" for number in range(4)])
                self.vote(f"report:{each}:withhold", *voters)
                self.done(commands.decide_report(self.state, self.now, "desk", each, withhold=True, reason="Harm."))
            for each in list(self.state.open_appeals):
                self.vote(f"appeal:{each}:invalid", *voters)
                self.done(commands.rule_on_appeal(self.state, self.now, "desk", each, None, "We looked at it."))
            self.tick()
            for each in [one for one in self.state.defences.values() if one.staked_at is not None]:
                for picture in self.state.worklist(each):
                    body = {"defence": each.id, "picture": picture, "member": "confirmer"}
                    self.must(self.propose(events.RejectionConfirmed(actor="confirmer", **body)))
            self.tick()

    def holds(self) -> None:
        """Asserts what holds at every point of a contest."""
        books = self.state.books
        assert sum(books.balances.values()) == 0
        assert all(amount >= 0 for account, amount in books.balances.items() if account != OUTSIDE)
        hidden = {each.id: each.team for each in self.state.pictures.values() if each.status == "received"}
        for team in ("", *TEAMS):
            assert all(hidden.get(each.id, team) == team for each in visible_pictures(self.state, team))
        for name in self.state.open_appeals:
            teams = self.state.teams_of(f"appeal:{name}")
            if not is_recused(self.state, "b4", teams, self.now):
                assert "owls" not in teams or self.state.board.conflicts["b4", "owls"]
        assert self.tick() == []
        assert {*self.state.board.seated.values()} <= self.state.board_keys()
        for each in self.state.defences.values():
            held = [books.balance(f"{account}:{each.id}") for account in ("reserved", "stake")]
            if (
                each.staked_at is not None
                and not any(held)
                and self.state.held_for(each, self.state.rules.days_unbroken)
            ):
                assert self.state.worklist(each) == []  # its stake went back
        self.holds_of_what_waits()

    def holds_of_what_waits(self) -> None:
        """Asserts that what is kept of open pictures is what a look at all of them finds."""
        state, every = self.state, list(self.state.pictures.values())
        waiting: dict[str, list[str]] = {}
        for each in state.defences.values():
            own = [picture for picture in every if state.awaits_answer(each, picture)]
            assert {*state.awaited_answers(each)} == {picture.id for picture in own}
            end = state.stake_ends(each)
            asked = [p for p in own if each.status in ANSWERING or (each.status in HELD and p.received < end)]
            for week in {picture.week for picture in asked}:
                waiting.setdefault(week, []).append(each.id)
            if each.staked_at is not None:
                kept = state.staked_defence(each)
                with patch.object(state, "_open_pictures", lambda _: every):
                    assert state.staked_defence(each) == kept
        assert state.weeks_to_ask() == {week: sorted(names) for week, names in waiting.items()}


ACTIONS = [name.removeprefix("do_") for name in dir(RandomContest) if name.startswith("do_")]
STEPS = st.lists(
    st.tuples(
        st.sampled_from([*ACTIONS, "upload", "upload", "upload", "answer", "rate"]),
        st.integers(0, 99),
        st.integers(0, 99),
    ),
    min_size=2 * WEEKS,
    max_size=5 * WEEKS,
)


def played(steps, *, late: bool, order: random.Random | None = None) -> RandomContest:
    """Returns a contest after these steps, spread over 40 weeks; where time is late, nothing runs in between."""
    contest = RandomContest(order)
    for action, one, two in [("publish", 1, 1), ("publish", 2, 2), *steps]:
        contest.do(action, one, two)
        pause = timedelta(weeks=WEEKS) / len(steps)
        if late:
            contest.now += pause
            contest.tick()
        else:
            contest.go_to(contest.now + pause)
        contest.holds()
    return contest


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(STEPS, st.booleans())
def test_what_holds_in_every_contest(steps, late) -> None:
    """Money sums to zero, nothing is paid twice, no recused member votes, the ledger as JSON folds to the same.

    And where everybody does what waits for them, the contest ends, and only awards that are not paid are left.
    """
    contest = played(steps, late=late)
    assert (contest.state.weeks.keys() - contest.state.closed_weeks.keys()) == {contest.state.week.id}
    lengths = {(each.closes - each.opens) // timedelta(hours=1) for each in contest.state.weeks.values()}
    assert {167, 169} < lengths
    contest.finish()
    contest.holds()
    books = contest.state.books
    assert contest.state.is_over
    assert books.balance(OUTSIDE) == -sum(each.amount for each in books.unpaid())
    own = [event for event, _ in contest.ledger]
    paid = [event.award for event in own if isinstance(event, events.PrizePaid)]
    assert len(paid) == len(set(paid))
    for event, at in contest.ledger:
        if isinstance(event, events.AppealRuled) and "The panel finds: undecided" in event.reason:
            end = contest.state.appeals[event.appeal].rated_at + timedelta(days=contest.state.rules.appeal_days)
            assert at >= end
    votes = [event.vote for event in own if getattr(event, "vote", None)]
    assert not [each for each in votes if {*each.in_favour, *each.against} - {*each.eligible}]
    assert not [each for each in votes if {*each.eligible} & each.recused.keys()]
    lines = [(event.model_dump(mode="json"), at.isoformat()) for event, at in contest.ledger]
    read = [
        (
            KINDS[line["kind"]].model_validate(line) if line["kind"] in KINDS else parse_core_event(line),
            datetime.fromisoformat(at),
        )
        for line, at in lines
    ]
    assert fold(contest.state.rules, read) == contest.state


def test_a_contest_that_runs_late_breaks_the_same_defences() -> None:
    """With the clock looked at once a fortnight the same weeks close and the same defences are broken."""
    steps = [("stake", 1, 0), *[("upload", 1, 0), ("upload", 2, 0), ("answer", 0, 0), ("rate", 0, 0)] * 10]
    punctual, late = played(steps, late=False), played(steps, late=True)
    assert [each.broken_by for each in punctual.state.defences.values()] == [
        each.broken_by for each in late.state.defences.values()
    ]
    assert punctual.state.closed_weeks == late.state.closed_weeks
    assert any(each.broken_by for each in late.state.defences.values())


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(STEPS, st.randoms(use_true_random=False))
def test_nothing_depends_on_the_order_in_which_pictures_are_asked_about(steps, order) -> None:
    """The same defences are broken by the same pictures, and the same money moves."""
    one, other = played(steps, late=False), played(steps, late=False, order=order)
    found = []
    for contest in (one, other):
        contest.finish()
        assert contest.state.is_over
        defences = contest.state.defences.values()
        transfers = {(each.id, each.target, each.amount) for each in contest.state.books.transfers.values()}
        found.append(([(each.status, {*each.broken_by}, each.answers) for each in defences], transfers))
    assert found[0] == found[1]


def calls_to_fold(weeks: int) -> int:
    """Returns how many calls of functions it takes to fold a contest of so many weeks, 20 pictures each."""
    contest = SimulatedContest()
    contest.add_board(b1="one@uni.example", b2="two@lab.example")
    contest.add_team("owls")
    contest.add_attackers("foxes", "wolves")
    contest.publish_defence("d1", "owls")
    for week in range(weeks):
        for number in range(20):
            contest.must(contest.upload(20 * week + number, ("foxes", "wolves")[number % 2]))
        contest.close_week()
        numbers = range(20 * week, 20 * week + 20)
        contest.must(contest.record_answers("d1", {handle(number): BIRD for number in numbers}))
        for number in numbers:
            contest.must(contest.rate(number))
    count = 0

    def profile(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        fold(contest.state.rules, contest.ledger)
    finally:
        sys.setprofile(None)
    return count


def test_folding_takes_time_in_proportion_to_the_ledger() -> None:
    """Three times as many weeks take about three times as many calls, not nine times."""
    assert calls_to_fold(6) < 3.6 * calls_to_fold(2)
