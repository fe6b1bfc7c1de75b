"""What raters see and send, what organizers plan, and what is refused (C7)."""

import io
import json
import re
from datetime import datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from orchestrator.application.contests import seasons, submission_closing
from orchestrator.application.grading.raters import rater_id
from orchestrator.domain.contest_events import PersonRecord, Role
from orchestrator.formats.attack_set.contest_grading import graded
from orchestrator.formats.attack_set.events import GradeGiven, GradesReceived, GradingPlanned, ScoresReleased
from orchestrator.formats.attack_set.grading.rater_exclusion import RaterStatus
from orchestrator.formats.attack_set.grading.sheets import Answer, AnswerFile, GradingTask
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder
from tests.web import rating_contest
from tests.web.conftest import client_of, make_account

STAMP = re.compile(r'name="stamp" value="([^"]*)"')
PICTURE = re.compile(r'<img src="(/rate/pictures/([0-9a-f]{16})/([12])/)" alt="[A-Z]')


@pytest.fixture
def rating(contest):
    """A contest with two raters who have accounts, and its clock."""
    from orchestrator.web import contest_site

    clock = rating_contest.Clock()
    rating_contest.make_contest(contest, clock)
    contest_site._site = contest_site.ContestSite(contest, clock)  # closed when this contest is served no more
    people = [make_account("Ada"), make_account("Bob")]
    rating_contest.grant(contest, clock, *people)
    plan = rating_contest.plan_for(contest, clock, [each.person for each in people])
    key = ContestFolder(contest).key()
    ids = [rater_id(key, each.person) for each in people]
    items = {item.token: (rater, item) for rater, item in plan.items()}
    return SimpleNamespace(
        folder=contest, clock=clock, plan=plan, items=items, people=people, ids=ids, client=client_of(people[0])
    )


def item_on(page) -> str:
    """Returns the token of the item that a page asks about."""
    return PICTURE.findall(page.content.decode())[0][1]


def stamp_on(page) -> str:
    """Returns what the form on a page carries."""
    return STAMP.search(page.content.decode())[1]


def choices(item, number: int) -> dict[str, str]:
    """Returns an answer to an item, another one for another number."""
    if item.task is GradingTask.QUALITY:
        return {"grade": str(1 + number % 5)}
    named = "none" if number % 7 == 0 else str(number % 10)
    return {"class_index": named, "proper": "no" if number % 3 == 0 else "yes"}


def send(rating, page, number: int = 1, client=None, seconds: float = 3, **more):
    """Answers the item on a page after some seconds, and returns what the service said."""
    rating.clock.move(seconds)
    _, item = rating.items[item_on(page)]
    form = {"stamp": stamp_on(page), **choices(item, number), **more}
    if b'name="corrects"' in page.content:
        form["corrects"] = "yes"
    return (client or rating.client).post("/rate/next/", form, follow=True)


def events_of(rating) -> list:
    """Returns the events of the format that are on record."""
    ledger = ContestFolder(rating.folder).ledger()
    try:
        return [entry.event for entry in ledger.read() if entry.event.kind.startswith("attack_set.")]
    finally:
        ledger.close()


def test_the_first_page_tells_what_is_to_be_done(rating):
    """It has the rules' wording, every answer with its key, and says that practice comes first."""
    page = rating.client.get("/rate/").content.decode()
    for text in ("Which of these classes do you see", "a very annoying difference", "Practice comes first: 20 to go"):
        assert text in page


@pytest.mark.slow
def test_practice_comes_first_and_answers_lead_on(rating):
    """The items come in the offline page's order: practice, then the others; an answer is a redirect to the next."""
    own = rating.plan.items_of(rating.ids[0])
    order = [i.token for i in own if i.practice] + [i.token for i in own if not i.practice]
    page = rating.client.get("/rate/next/")
    for number, token in enumerate(order[:24]):
        assert item_on(page) == token
        assert ("Practice: does not count" in page.content.decode()) is rating.items[token][1].practice
        page = send(rating, page, number)
        assert page.redirect_chain == [("/rate/next/", 303)]
    given = [event for event in events_of(rating) if isinstance(event, GradeGiven)]
    assert [event.answer.token for event in given] == order[:24]
    assert {event.answer.milliseconds for event in given} == {3000}
    assert {(event.actor, event.rater) for event in given} == {(rating.ids[0], rating.ids[0])}


def answer_everything(rating, client) -> int:
    """Answers all items, some of them too fast and some of them twice; returns how many answers were sent."""
    page, number = client.get("/rate/next/"), 0
    while b"That was the last picture" not in page.content:
        number += 1
        if number % 11 == 0:
            page = send(rating, page, number, client, seconds=0.4)
        else:
            page = send(rating, page, number, client, milliseconds="1234", device_pixel_ratio="1.5")
        if number % 13 == 0:
            number += 1
            page = send(rating, client.get("/rate/last/"), number, client)
    return number


@pytest.mark.slow
def test_answers_count_exactly_as_those_of_the_offline_page(rating):
    """The same answers, sent one by one or in one file, give equal scores, intervals and reports.

    Organizers see which raters' answers do not count, and why.
    """
    for account in rating.people:
        answer_everything(rating, client_of(account))
    events = events_of(rating)
    single = [event for event in events if isinstance(event, GradeGiven)]
    files = [
        GradesReceived(
            actor="organizer",
            task="digits",
            file=AnswerFile(
                plan=rating.plan.digest, rater=rater, answers=[e.answer for e in single if e.rater == rater]
            ),
        )
        for rater in rating.ids
    ]
    offline = [event for event in events if isinstance(event, GradingPlanned)]
    labels = np.arange(rating_contest.PICTURES) % 10
    by_site, by_page = (graded(some, "digits", labels, 10) for some in (events, [*offline, *files]))
    assert by_site == by_page
    tokens = [event.answer.token for event in single]
    assert len(tokens) > len({*tokens}) > 2 * 60  # some were replaced, and some came back
    assert any(event.answer.milliseconds < 500 for event in single)
    assert {report.status.value for report in by_site.raters} >= {"removed", "waiting"}
    page = organizer(rating).get("/organize/grading/").content.decode()
    assert "removed: the mean grade of originals is" in page


@pytest.mark.slow
def test_pages_of_all_kinds_of_items_have_one_form(rating):
    """A submission's item, an original, an anchor and a repeat differ in their tokens and numbers alone."""
    seen: dict[tuple, set[str]] = {}
    kinds: dict[tuple, set[tuple]] = {}
    page, number = rating.client.get("/rate/next/"), 0
    while b"That was the last picture" not in page.content:
        number += 1
        text, (_, item) = page.content.decode(), rating.items[item_on(page)]
        following = re.findall(r'pictures/([0-9a-f]{16})/[12]/" alt=""', text)
        plain = re.sub(r'[0-9a-f]{16}|name="(stamp|csrfmiddlewaretoken)" value="[^"]*"|value="\d+"', "", text)
        plain = re.sub(r"<span>\d+ of \d+</span>|\d+ pictures? of practice|about \d+ minutes? left", "", plain)
        form = (item.task, item.practice, len(following), number > 1)
        seen.setdefault(form, set()).add(plain)
        kinds.setdefault(form, set()).add((item.kind, item.repeat_of is not None))
        assert not any(word in text for word in ("Reds", "reds", "Blues", "blues", "anchor", "submission"))
        page = send(rating, page, number)
    assert max(len(each) for each in kinds.values()) >= 4
    assert {form: len(texts) for form, texts in seen.items()} == dict.fromkeys(seen, 1)


def test_an_item_is_answered_once(rating):
    """The same form sent again is refused with the page of the next item."""
    page = rating.client.get("/rate/next/")
    after = send(rating, page)
    again = send(rating, page)
    assert again.status_code == 409
    assert "not the one that you are asked about now" in again.content.decode()
    assert item_on(again) == item_on(after)
    assert len([e for e in events_of(rating) if isinstance(e, GradeGiven)]) == 1


@pytest.mark.slow
def test_neither_others_items_nor_later_ones_are_taken(rating):
    """An item of another rater, and a counting one before practice, are refused."""
    from orchestrator.web.rating import stamp

    page = rating.client.get("/rate/next/")
    own = next(i for i in rating.plan.items_of(rating.ids[0]) if not i.practice)
    other = rating.plan.items_of(rating.ids[1])[0]
    for item in (own, other):
        forged = stamp(SimpleNamespace(token=item.token), rating.clock())
        answer = rating.client.post("/rate/next/", {"stamp": forged, **choices(item, 1)})
        assert answer.status_code == 409
        assert item_on(answer) == item_on(page)
    assert not [e for e in events_of(rating) if isinstance(e, GradeGiven)]


@pytest.mark.parametrize(
    "changed",
    [{"stamp": "made-up"}, {"class_index": "10"}, {"class_index": ""}, {"proper": "perhaps"}],
    ids=["stamp", "class", "no-class", "proper"],
)
def test_answers_that_do_not_fit_are_refused(rating, changed):
    """A form of nobody's, and choices that the page does not offer, are no answer."""
    page = rating.client.get("/rate/next/")
    assert rating.items[item_on(page)][1].task is GradingTask.VALID
    refused = send(rating, page, **changed)
    assert refused.status_code == 409
    assert item_on(refused) == item_on(page)
    assert not [e for e in events_of(rating) if isinstance(e, GradeGiven)]


def test_a_refused_answer_stays_chosen(rating):
    """Where one question has no answer, the other stays answered; the page says in one line which one is missing."""
    page = rating.client.get("/rate/next/")
    refused = send(rating, page, class_index="4", proper="").content.decode()
    assert re.findall(r'name="(\w+)" value="(\w+)"[^>]* checked', refused) == [("class_index", "4")]
    assert "problem" not in refused
    assert "has no answer" in refused
    assert " checked" not in send(rating, page, stamp="made-up").content.decode()


def test_nobody_looked_longer_than_the_server_waited(rating):
    """A browser's claim of a long look counts as the time between the page and its answer."""
    page = rating.client.get("/rate/next/")
    send(rating, page, seconds=0.3, milliseconds="5000")
    [given] = [e for e in events_of(rating) if isinstance(e, GradeGiven)]
    assert given.answer.milliseconds == 300


@pytest.mark.slow
def test_an_answer_that_was_too_fast_comes_back_once(rating):
    """After the other practice items the item is asked again, and not a third time."""
    page = rating.client.get("/rate/next/")
    first = item_on(page)
    page = send(rating, page, seconds=0.1)
    shown = []
    while b"Practice: does not count" in page.content:
        shown.append(item_on(page))
        page = send(rating, page, seconds=0.1 if item_on(page) == first else 3)
    assert shown.count(first) == 1
    assert shown[-1] == first


@pytest.mark.slow
def test_the_last_answer_can_be_replaced_for_a_minute(rating):
    """The later answer is an event of its own and counts; 61 seconds after the first it is refused."""
    page = send(rating, rating.client.get("/rate/next/"), 1)
    again = rating.client.get("/rate/last/")
    assert "Your last answer" in again.content.decode()
    changed = send(rating, again, 2)
    assert item_on(changed) == item_on(page)
    first, second = [e for e in events_of(rating) if isinstance(e, GradeGiven)]
    assert (first.answer.token, first.answer.class_index) == (second.answer.token, 1)
    assert second.answer.class_index == 2
    late = rating.client.get("/rate/last/")
    refused = send(rating, late, 3, seconds=61)
    assert refused.status_code == 409
    assert "within 60 seconds" in refused.content.decode()
    assert b"Your last answer" not in rating.client.get("/rate/last/", follow=True).content
    assert len([e for e in events_of(rating) if isinstance(e, GradeGiven)]) == 2


def file_of(rating, answers) -> AnswerFile:
    """Returns a file of the first rater."""
    return AnswerFile(plan=rating.plan.digest, rater=rating.ids[0], answers=answers)


def import_file(rating, answers) -> None:
    """Notes a file of the first rater, as `sparring grade import` does."""
    file = file_of(rating, answers)
    with seasons.administer(rating.folder, clock=rating.clock) as admin:
        admin.append_event(GradesReceived(actor="organizer", task="digits", file=file))


def test_of_a_file_and_answers_on_the_site_the_first_counts(rating):
    """A file that says otherwise, or is too fast, changes no answer of the site and asks nothing again."""
    contest = Contest(rating.folder / "contest.yaml")
    rater, plan, labels = rating.ids[0], rating.plan, np.arange(rating_contest.PICTURES) % 10
    said = {GradingTask.QUALITY: {"grade": 3}, GradingTask.VALID: {"proper": True}}
    own = [Answer(token=item.token, milliseconds=2000, **said[item.task]) for item in plan.items_of(rater)]
    planned = GradingPlanned(actor="organizer", task="digits", plan=plan)
    site = [GradeGiven(actor=rater, task="digits", plan=plan.digest, rater=rater, answer=answer) for answer in own]
    other = [
        answer.model_copy(update={"milliseconds": fast} | ({"grade": 1} if answer.grade else {"proper": False}))
        for fast in (2000, 0)
        for answer in own
    ]
    events = [planned, *site, GradesReceived(actor="organizer", task="digits", file=file_of(rating, other))]
    before = graded(events[:-1], "digits", labels, 10)
    assert graded(events, "digits", labels, 10) == before
    assert before.raters[0].status is RaterStatus.REMOVED
    at_work = contest.format.human_grading().rating(contest.make_task(contest.load_samples("digits"), "digits"))
    for event in events:
        at_work.apply(event, rating.clock())
    assert at_work.own_answers(rater).next is None


def test_what_a_file_answers_cannot_be_changed_on_the_site(rating):
    """Not for a minute either: only an answer that was given on the site has one."""
    page = send(rating, rating.client.get("/rate/next/"), 1)
    late = rating.client.get("/rate/last/")
    [given] = [e.answer for e in events_of(rating) if isinstance(e, GradeGiven)]
    import_file(rating, [given])
    assert b"Your last answer" not in rating.client.get("/rate/last/", follow=True).content
    assert send(rating, late, 2).status_code == 409
    assert item_on(rating.client.get("/rate/next/")) == item_on(page)
    assert len([e for e in events_of(rating) if isinstance(e, GradeGiven)]) == 1


def test_pictures_are_one_s_own_encoded_anew_and_kept_until_answered(rating):
    """Only PNG pixels come, a browser keeps them while the answer waits, and others have no such address."""
    page = rating.client.get("/rate/next/")
    address = f"/rate/pictures/{item_on(page)}/1/"
    before = rating.client.get(address)
    assert before["Cache-Control"] == "private, max-age=600"
    assert Image.open(io.BytesIO(before.content)).size == (8, 8)
    assert re.findall(rb"IHDR|tEXt|eXIf|tIME|IDAT|IEND", before.content) == [b"IHDR", b"IDAT", b"IEND"]
    assert client_of(rating.people[1]).get(address).status_code == 404
    assert rating.client.get(f"/rate/pictures/{item_on(page)}/2/").status_code == 404
    assert rating.client.get(f"/rate/pictures/{'0' * 16}/1/").status_code == 404
    send(rating, page)
    assert rating.client.get(address)["Cache-Control"] == "private, no-store"


def test_the_pages_are_for_raters(rating):
    """A visitor is asked to sign in, and who has no role is refused."""
    assert client_of().get("/rate/next/")["Location"].startswith("/account/login/")
    assert client_of(make_account("Eve")).get("/rate/next/").status_code == 403
    assert rating.client.get("/organize/grading/").status_code == 403


def join_team(rating, account) -> None:
    """Makes somebody one of the Reds."""
    with seasons.administer(rating.folder, clock=rating.clock) as admin:
        people = [PersonRecord(id=p.id, name=p.name) for p in admin.season.teams["Reds"]]
        admin.add_team("Reds", [*people, PersonRecord(id=account.person, name=account.name)])


def test_a_rater_who_joined_a_team_grades_no_more(rating):
    """Pages say why, an answer is refused, and no picture is shown."""
    page = rating.client.get("/rate/next/")
    join_team(rating, rating.people[0])
    refused = send(rating, page)
    assert refused.status_code == 409
    assert "is of the team Reds" in refused.content.decode()
    assert "is of the team Reds" in rating.client.get("/rate/").content.decode()
    assert rating.client.get(f"/rate/pictures/{item_on(page)}/1/").status_code == 404
    assert not [e for e in events_of(rating) if isinstance(e, GradeGiven)]


def test_who_is_in_a_team_cannot_accept_the_role(rating):
    """The invitation is not used up and the page says why."""
    from orchestrator.web import invitations

    account = make_account("Cem")
    join_team(rating, account)
    link = invitations.invite(by="organizer", role=Role.RATER, now=rating.clock())
    refused = client_of(account).post(link)
    assert refused.status_code == 409
    assert "is of the team Reds" in refused.content.decode()
    assert invitations.find(link.rstrip("/").rpartition("/")[2], rating.clock()) is not None


def test_after_the_release_nothing_is_asked(rating):
    """The plan is public then: an answer is refused and the page says that it is over."""
    page = rating.client.get("/rate/next/")
    with seasons.administer(rating.folder, clock=rating.clock) as admin:
        admin.append_event(ScoresReleased(actor="organizer"))
    refused = send(rating, page)
    assert refused.status_code == 409
    assert "The grading is over" in refused.content.decode()
    assert "The grading is over" in rating.client.get("/rate/").content.decode()


def test_a_pause_is_suggested_after_half_an_hour(rating):
    """It counts from the first answer after the last ten minutes without one."""
    from orchestrator.web.rating import at_work

    page = rating.client.get("/rate/next/")
    for _ in range(5):
        page = send(rating, page, seconds=400)
    assert b"half an hour" not in page.content
    assert b"half an hour" in send(rating, page, seconds=400).content
    now = datetime.fromisoformat("2026-12-01T12:00:00+00:00")
    times = [now - timedelta(minutes=minutes) for minutes in (90, 25, 16, 8)]
    assert at_work(times, now) == timedelta(minutes=25)
    assert at_work(times, now + timedelta(minutes=2)) == timedelta()


def organizer(rating):
    """Returns an organizer's browser."""
    account = make_account("Olga")
    with seasons.administer(rating.folder, clock=rating.clock) as admin:
        from orchestrator.application.contests import roles

        roles.grant_role(admin, PersonRecord(id=account.person, name=account.name), Role.ORGANIZER)
    return client_of(account)


@pytest.mark.slow
def test_organizers_see_who_may_grade_and_how_far_it_is(rating):
    """Whether a rater's answers count is not said while the rater is at work."""
    join_team(rating, rating.people[1])
    client = organizer(rating)
    page = client.get("/organize/grading/").content.decode()
    assert "1 of 2 with the role of a rater may grade" in page
    assert "is of the team Reds" in page
    assert page.count("not begun") == 4
    send(rating, rating.client.get("/rate/next/"))
    page = client.get("/organize/grading/").content.decode()
    assert "at work" in page
    assert "waiting" not in page


def test_organizers_are_told_why_nothing_is_planned(rating):
    """A plan needs the close and the round; appeals that cannot be read are refused."""
    client = organizer(rating)
    said = client.post("/organize/grading/", {"task": "digits", "act": "plan"})
    assert said.status_code == 409
    assert "submissions are received until you close them" in said.content.decode()
    with seasons.administer(rating.folder, clock=rating.clock) as admin:
        submission_closing.close_submissions(admin)
    said = client.post("/organize/grading/", {"task": "digits", "act": "plan"})
    assert said.status_code == 409
    assert "was not played" in said.content.decode()
    said = client.post("/organize/grading/more/", {"task": "digits", "appeals": "reds: 3"})
    assert said.status_code == 400
    assert "write SUBMISSION=3,17" in said.content.decode()
    assert client.post("/organize/grading/", {"task": "cats", "act": "plan"}).status_code == 409
    assert len(events_of(rating)) == 1


@pytest.mark.slow
def test_ids_in_the_plan_are_nobody_s_own(rating):
    """They fit the plan, stay the same, and hold nothing of the person's id; another contest has others."""
    person = rating.people[0].person
    assert re.fullmatch("r-[0-9a-f]{16}", rating.ids[0])
    assert person.removeprefix("person-") not in json.dumps(rating.plan.model_dump(mode="json"))
    other = rating.folder.parent / "other"
    rating_contest.make_contest(other, rating.clock)
    assert rater_id(ContestFolder(other).key(), person) != rating.ids[0]
