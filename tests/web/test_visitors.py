"""What everybody may see: it is there before and after a round, and has nothing hidden in it."""

import io
import json
import re
import shutil
import zipfile
from collections import Counter

import numpy as np
import pytest

from orchestrator.application.contests import season_rounds, seasons
from orchestrator.application.rounds.round_progress import JobCounts, ProgressReader
from orchestrator.domain import contest_events, events
from orchestrator.domain.plan import Stage
from orchestrator.ledger.stores.base import format_time
from tests import plain_player, postgresql
from tests.application.conftest import HOW, NOON, TESTS, Cup
from tests.reports.pages import Tree
from tests.web.conftest import ADDRESS, client_of, empty_tables, make_account
from tests.web.world import EVERYBODY

pytestmark = pytest.mark.xdist_group("visited")  # its contest is played once
MARK = "QZLABELZQ"
"""What tests/application/players/telltale.py writes before each label that it tells."""
HOSTILE_TEAM = "<script>alert(1)</script>\N{RIGHT-TO-LEFT OVERRIDE}Four"
PERSON = "person-00canary00"
TEMPLATES = ("tournament", "warmup", "attack_set")
STATIC_PAGES = ("/", "/boards/", "/downloads/", "/progress/", "/progress/fragment/")


@pytest.fixture(scope="module")
def played(service, tmp_path_factory) -> Cup:
    """A contest whose players tell every label they get, played once, with people, a refusal and an announcement."""
    cup = Cup(tmp_path_factory.mktemp("visited")).open()
    with cup.desk() as desk:
        desk.add_team(HOSTILE_TEAM, [contest_events.PersonRecord(id=PERSON, name="Zacharias Canary")])
        text = "First line <b>.\n\n" + "x" * 3000 + "END"
        desk.append_event(contest_events.ContestAnnounced(actor=PERSON, title="Old <i>news", text="before"))
        desk.append_event(contest_events.ContestAnnounced(actor=PERSON, title="News", text=text))
    for team, kind in (("One", "attack_raises"), (HOSTILE_TEAM, "attack_delivers"), ("Three", "defence_raises")):
        folder = cup.player(kind, kind.replace("_", "-"))
        shutil.copy(TESTS / "application" / "players" / "telltale.py", folder / "player.py")
        shutil.copy(plain_player.PROTOCOL, folder)
        cup.submit(team, folder)
    cup.play("initial")
    return cup


def serving(folder):
    """Serves a contest's folder in this process."""
    from django.test import override_settings

    from orchestrator.web.settings import WebSettings

    empty_tables()
    return override_settings(SPARRING=WebSettings(contest=folder, address=ADDRESS))


@pytest.fixture
def visited(played):
    """The contest that was played, served."""
    (played.folder.path / "web").mkdir(exist_ok=True)
    with serving(played.folder.path):
        yield played


@pytest.fixture(params=TEMPLATES)
def fresh(service, request, tmp_path):
    """A contest of each template, of which nothing was played."""
    folder = tmp_path / "cup"
    seasons.create_contest(folder, request.param)
    (folder / "web").mkdir()
    with serving(folder):
        yield request.param, folder


@pytest.fixture(scope="module", params=["warmup", "attack_set"])
def played_template(service, request, tmp_path_factory):
    """A contest of a template, with a team, in which a defence that answers the first class met a few pictures."""
    cup = Cup(tmp_path_factory.mktemp("template"))
    folder, defence = cup.folder.path, cup.player("defence_constant")
    seasons.create_contest(folder, request.param)
    (folder / "web").mkdir()
    text = (folder / "contest.yaml").read_text()
    for before, after in (
        ("first: 100}", "first: 8}"),
        ("side: 28}\n", "side: 28, first: 20}\n"),
        ("pictures: 100", "pictures: 4"),
        ("dx_steps: 3, dy_steps: 3, angle_steps: 7", "dx_steps: 1, dy_steps: 1, angle_steps: 2"),
        ("  - {builtin: defence_spatial_trained}\n", ""),
        ("power: 0.9", "power: 0"),
    ):
        text = text.replace(before, after)
    text = re.sub(r"(?m)^  (spsa|boundary):.*$", r"  \1: null", text)
    text = re.sub(r"\{builtin: defence_undefended\w*\}", f"{{folder: {defence}, name: constant}}", text)
    (folder / "contest.yaml").write_text(text)
    with seasons.administer(folder) as desk:
        desk.add_team("Reds", [contest_events.PersonRecord(id=PERSON, name="Zacharias Canary")])
        season_rounds.play_round(desk, "board", HOW, lambda _: None)
    return request.param, folder


def links_of(page: str) -> set[str]:
    """Returns the addresses of this site that a page links to."""
    found = {str(attrs["href"]) for attrs in Tree(page).named("a") if "href" in attrs}
    return {link for link in found if link.startswith("/") and not link.startswith("/account/")}


def crawl(client) -> dict[str, bytes]:
    """Returns every page and file that can be reached from the first page, and the live part, by address."""
    left, found = ["/", "/progress/fragment/"], {}
    while left:
        address = left.pop()
        answer = client.get(address)
        assert answer.status_code == 200, (address, answer.status_code)
        found[address] = answer.content
        if answer["Content-Type"].startswith("text/html"):
            left += sorted(links_of(answer.content.decode()) - found.keys() - set(left))
    return found


def html_pages(found: dict[str, bytes]) -> dict[str, str]:
    """Returns the whole pages among what was found."""
    return {address: body.decode() for address, body in found.items() if body.startswith(b"<!DOCTYPE html>")}


@pytest.mark.slow
def test_before_a_round_every_page_is_there(fresh):
    """Home, boards, downloads and progress answer for each format, and say that nothing was played."""
    template, folder = fresh
    found = crawl(client_of())
    assert found.keys() >= set(STATIC_PAGES)
    assert b"No round has results yet" in found["/boards/"]
    assert b"Nothing is being played" in found["/progress/"]
    home = found["/"].decode()
    assert ("each week closes by itself (U5)" if template == "unrestricted" else "none announced") in home
    asked_again = "Answers are asked again" in home
    assert not (asked_again and "are not asked again" in home)
    assert asked_again == (template in ("tournament", "warmup"))
    assert ("pictures that defences may get wrong" in home) == (template == "unrestricted")
    assert seasons.ContestFolder(folder).key().fingerprint in home
    for page in html_pages(found).values():
        assert_sound(page)


def assert_sound(page: str) -> None:
    """One h1, no id twice, no inline script, style or handler, and each table has a caption."""
    tree = Tree(page)
    ids = Counter(attrs["id"] for _, attrs in tree.tags if "id" in attrs)
    assert max(ids.values()) == 1
    assert len(tree.named("h1")) == 1
    assert len(tree.named("main")) == 1
    assert len(tree.named("table")) == len(tree.named("caption"))
    assert not tree.named("style")
    assert all("src" in attrs for attrs in tree.named("script"))
    assert not [attrs for _, attrs in tree.tags if "style" in attrs or any(name.startswith("on") for name in attrs)]


def test_rules_limits_and_tasks_are_on_the_home_page(fresh):
    """Each rule has its sentence; limits are there where programs are submitted."""
    name, folder = fresh
    contest = seasons.Contest(folder / "contest.yaml")
    words = Tree(client_of().get("/").content.decode()).words
    for ids, sentence in contest.format.rules_in_words():
        assert f"{ids} {sentence}" in words, ids
    assert ("1.0 GiB of memory" in words) == (name != "attack_set")
    assert "200 pictures, grey, 8 x 8 pixels" in words or name != "tournament"


def test_prizes_are_on_the_home_page(service, tmp_path):
    """As the organizers wrote them, as text; without any there is no heading."""
    folder = tmp_path / "cup"
    seasons.create_contest(folder, "tournament")
    file, sentence = folder / "contest.yaml", "First place of each board gets 500 EUR & <b>fame</b>."
    with serving(folder):
        assert "Prizes" not in Tree(client_of().get("/").content.decode()).words
        file.write_text(f"{file.read_text('utf-8')}\nprizes:\n  - {sentence}\n")
        assert f"Prizes {sentence}" in Tree(client_of().get("/").content.decode()).words
        assert client_of().get("/api/v1/contest").json()["prizes"] == [sentence]


def test_dates_have_their_zone(service, tmp_path):
    """What the file says is shown as it says it, with whether submissions are received now."""
    folder = tmp_path / "cup"
    seasons.create_contest(folder, "tournament")
    pages = []
    with serving(folder):
        for opens, state in (
            ("2001-12-01T09:00:00+01:00", "no longer received"),
            ("9001-01-01T09:00:00Z", "received yet"),
        ):
            text = (folder / "contest.yaml").read_text()
            text = re.sub(r"(?m)^(# )?opens:.*$", f"opens: {opens}", text)
            closes = "2002-01-31T23:59:59+01:00" if opens.startswith("2") else "9002-01-01T00:00:00Z"
            (folder / "contest.yaml").write_text(re.sub(r"(?m)^(# )?closes:.*$", f"closes: {closes}", text))
            pages.append(Tree(client_of().get("/").content.decode()).words)
            assert state in pages[-1]
    assert "Opens 1 December 2001, 09:00 UTC+01:00 Closes 31 January 2002, 23:59:59 UTC+01:00" in pages[0]
    assert "Opens 1 January 9001, 09:00 UTC Closes 1 January 9002, 00:00 UTC" in pages[1]


def test_after_a_round_everything_is_linked_and_sound(visited):
    """Boards, the round, every team, every file: reached by links, each sound, none twice framed."""
    found = crawl(client_of())
    assert {"/rounds/initial/quarters/", "/teams/one/", "/files/cells.csv", "/files/report.md"} <= found.keys()
    hostile = [address for address in found if address.startswith("/teams/") and "four" in address]
    assert len(hostile) == 1
    for address, page in html_pages(found).items():
        assert_sound(page)
        assert page.count('<div class="masthead">') == 1, address


def test_nothing_hidden_is_on_any_page(visited):
    """No told label, no person's id or name, no picture, no hidden model's standard error, no key."""
    shutil.rmtree(visited.folder.path / "site", ignore_errors=True)
    found = crawl(client_of()) | crawl(client_of(make_account("Ada")))
    key = (visited.folder.path / "key").read_bytes()
    secret = visited.folder.round("initial", "quarters").secret()
    for address, body in found.items():
        for canary in (MARK, PERSON, "Zacharias", "P. One", "Traceback", key.hex(), secret.hex()):
            assert canary.encode() not in body, (address, canary)
        assert key not in body
        assert b"<img" not in body
    assert not [address for address in found if address.endswith(".zip") and "templates" not in address]


@pytest.mark.slow
def test_the_other_formats_have_their_boards(played_template):
    """After a round every page is there and sound, and as coarse as the format wants it; nobody is named."""
    name, folder = played_template
    with serving(folder):
        found = crawl(client_of())
    assert {"/rounds/board/digits/", "/teams/reds/", "/files/boards.csv"} <= found.keys()
    for page in html_pages(found).values():
        assert_sound(page)
    for body in found.values():
        assert b"Canary" not in body
        assert PERSON.encode() not in body
    assert (len(found["/files/cells.csv"].splitlines()) == 1) == (name == "attack_set")  # not before release (C9)


def test_hostile_names_stay_words(visited):
    """A team called like a script is text on every page, with its direction marks made visible."""
    found = html_pages(crawl(client_of()))
    named = [address for address, page in found.items() if "alert(1)" in page]
    assert {"/", "/boards/", "/rounds/initial/quarters/"} <= set(named)
    for page in found.values():
        assert "<script>alert" not in page
        assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page


def test_announcements_are_whole_and_the_newest_is_first(visited):
    """Their text is escaped, in paragraphs, and longer ones are not cut."""
    page = client_of().get("/").content.decode()
    assert page.index("News") < page.index("Old &lt;i&gt;news")
    assert "First line &lt;b&gt;." in page
    assert "x" * 1000 + "END" in page


@pytest.mark.parametrize("address", ["/", "/boards/", "/rounds/initial/quarters/", "/teams/one/", "/files/boards.csv"])
def test_a_page_that_did_not_change_is_304(visited, address):
    """For a visitor, for caches in between, and for each signed-in person alone."""
    visitor, ada = client_of(), client_of(make_account("Ada"))
    first = visitor.get(address)
    assert first["Cache-Control"] == "public, no-cache"
    assert "Cookie" in first["Vary"]
    assert not first.cookies
    again = visitor.get(address, HTTP_IF_NONE_MATCH=first["ETag"])
    assert (again.status_code, again.content) == (304, b"")
    own = ada.get(address, HTTP_IF_NONE_MATCH=first["ETag"])
    assert own.status_code == 200
    assert own["Cache-Control"] == "private, no-cache"
    assert ada.get(address, HTTP_IF_NONE_MATCH=own["ETag"]).status_code == 304
    with visited.desk() as desk:
        desk.append_event(contest_events.ContestAnnounced(actor="desk", title="Soon", text="soon"))
    assert visitor.get(address, HTTP_IF_NONE_MATCH=first["ETag"]).status_code == 200


def test_many_visitors_cost_one_rendering(visited, monkeypatch):
    """Whoever looks at the same state of a page gets what was rendered once."""
    from orchestrator.web import public_pages

    rendered = []
    original = public_pages._parts
    monkeypatch.setattr(public_pages, "_parts", lambda *a, **k: rendered.append(a) or original(*a, **k))
    with visited.desk() as desk:
        desk.append_event(contest_events.ContestAnnounced(actor="desk", title="Now", text="now"))
    for number in range(20):
        assert client_of(make_account(f"P{number}") if number % 2 else None).get("/boards/").status_code == 200
    assert rendered == [("index.html.j2",)]


def test_boards_follow_what_people_do(played, tmp_path):
    """After a withdrawal the results are computed again, and the team's page has the reason."""
    folder = tmp_path / "copy"
    postgresql.copy_contest(played.folder.path, folder)
    (folder / "web").mkdir(exist_ok=True)
    with serving(folder):
        address = "/teams/one/"
        assert "went home" not in client_of().get(address).content.decode()
        with seasons.administer(folder, "desk", lambda: NOON) as desk:
            desk.withdraw("attack-raises", "went home")
        (folder / "rounds/initial/quarters/results.json").unlink()  # as a killed command leaves it
        page = client_of().get(address).content.decode()
        assert "Withdrawn" in page
        assert "withdrawn: went home" in client_of().get("/boards/").content.decode()


@pytest.mark.parametrize(
    "address", ["/rounds/final/quarters/", "/rounds/initial/none/", "/teams/nobody/", "/files/key", "/downloads/x.zip"]
)
def test_what_is_not_there_is_404(visited, address):
    """Rounds that were not played, teams and files that are not there."""
    assert client_of().get(address).status_code == 404


@pytest.mark.slow
def test_downloads_are_public_pictures_only(fresh):
    """A sample where there is one, the task's own pictures where teams change them, templates where programs play."""
    name, folder = fresh
    offered = {link.removeprefix("/downloads/") for link in links_of(client_of().get("/downloads/").content.decode())}
    wanted = {
        "tournament": {"templates.zip"},
        "warmup": {"templates.zip", "sample-digits.zip"},
        "attack_set": {"pictures-digits.zip"},
    }[name]
    assert {link for link in offered if link.endswith(".zip")} == wanted
    for each in wanted:
        answer = client_of().get(f"/downloads/{each}")
        assert answer["Content-Disposition"] == f'attachment; filename="{each}"'
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            names = archive.namelist()
        assert "label.txt" in names or each == "templates.zip"
        assert client_of().get(f"/downloads/{each}").content == answer.content
    assert ("sample-digits.npz" in offered) == ("sample-digits.zip" in wanted)
    for hidden in {"pictures-digits.zip", "sample-digits.zip"} - wanted:
        assert client_of().get(f"/downloads/{hidden}").status_code == 404
    key = json.loads(client_of().get("/downloads/key.json").content)
    assert key["fingerprint"] == seasons.ContestFolder(folder).key().fingerprint
    assert len(bytes.fromhex(key["key"])) == 32


def test_a_warm_ups_sample_has_no_hidden_picture(fresh):
    """The zip and the arrays hold the sample's pictures, and none of the task's own."""
    name, folder = fresh
    if name != "warmup":
        return
    from orchestrator.picture_files.task_zip import read_task_zip

    path = folder / "sample.zip"
    path.write_bytes(client_of().get("/downloads/sample-digits.zip").content)
    contest = seasons.Contest(folder / "contest.yaml")
    with np.load(io.BytesIO(client_of().get("/downloads/sample-digits.npz").content)) as arrays:
        assert np.array_equal(arrays["images"], contest.load_public_samples("digits").pixels)
        assert np.array_equal(arrays["labels"], contest.load_public_samples("digits").labels)
    shown = {picture.tobytes() for picture in read_task_zip(path).pixels}
    assert shown == {picture.tobytes() for picture in contest.load_public_samples("digits").pixels}
    assert not shown & {picture.tobytes() for picture in contest.load_samples("digits").pixels}


def test_progress_is_told_and_ends(contest):
    """A request, what arrives, a begun round with its jobs, one that waits; then 204 once the browser knows the end."""
    (contest / "web").mkdir(exist_ok=True)
    client, fragment = client_of(), "/progress/fragment/"
    idle = client.get(fragment)
    assert b"Nothing is being played" in idle.content
    assert client.get(fragment, HTTP_IF_NONE_MATCH=idle["ETag"]).status_code == 204
    with seasons.administer(contest, PERSON) as desk:
        desk.append_event(
            contest_events.RoundRequested(actor=PERSON, request="0123456789abcdef", round="initial", task="")
        )
    asked = client.get(fragment, HTTP_IF_NONE_MATCH=idle["ETag"])
    assert b"requested, and waits to be played" in asked.content
    assert PERSON.encode() not in asked.content
    assert client.get(fragment, HTTP_IF_NONE_MATCH=asked["ETag"]).status_code == 304
    ledger = begin_round(contest)
    playing = client.get(fragment).content.decode()
    assert "1 of 2 jobs finished, the rest wait for another run" in Tree(playing).words
    assert "deadline" in playing
    assert "Attacks make their pictures 1 of 2 jobs" in Tree(playing).words
    assert "secret words" not in playing
    ledger.append(events.RoundClosed(), time=format_time(NOON))
    with seasons.administer(contest, PERSON) as desk:
        desk.append_event(contest_events.RoundRequestClosed(actor=PERSON, request="0123456789abcdef", outcome="played"))
    ended = client.get(fragment)
    assert b"Nothing is being played" in ended.content
    assert client.get(fragment, HTTP_IF_NONE_MATCH=ended["ETag"]).status_code == 204
    ledger.close()


def begin_round(folder):
    """Writes the ledger of a round of which one of two jobs is finished and one is parked, and returns it."""
    place = seasons.ContestFolder(folder).round("initial", "digits")
    place.create()
    ledger = place.ledger()
    jobs = [events.JobRecord(id=f"job{number}", stage=Stage.PERTURB, submission="square") for number in (1, 2)]
    ledger.append(
        events.PlanMade(jobs=jobs),
        events.JobFinished(job="job1", stage="perturb", submission="square", device=None, seconds=1, sandboxes=[]),
        events.JobParked(job="job2", stage="perturb", submission="square", code="deadline", message="secret words"),
        time=format_time(NOON),
    )
    return ledger


def test_the_reader_reads_each_entry_once(contest):
    """What it knows after the second look is what a new one knows."""
    ledger = begin_round(contest)
    folder = seasons.ContestFolder(contest)
    admin_contest, season = seasons.Contest(folder.file), seasons.Season()
    reader = ProgressReader(folder)
    [before] = reader.read(admin_contest, season).rounds
    assert (before.planned, before.finished, len(before.waiting)) == (2, 1, 1)
    finished = events.JobFinished(
        job="job2", stage="perturb", submission="square", device=None, seconds=1, sandboxes=[]
    )
    ledger.append(finished, time=format_time(NOON))
    [after] = reader.read(admin_contest, season).rounds
    assert (after.planned, after.finished, after.waiting) == (2, 2, ())
    ledger.append(events.StepsLost(jobs=["job1"], reason="lost"), time=format_time(NOON))
    [lost] = reader.read(admin_contest, season).rounds
    fresh_reader = ProgressReader(folder)
    assert lost.finished == 1
    assert fresh_reader.read(admin_contest, season).rounds == (lost,)
    for each in (reader, fresh_reader, ledger):
        each.close()


def test_stages_are_counted_by_their_jobs_and_cells(contest):
    """A plan's classified cells are those of its classify jobs, and done with them; what is lost is not done."""
    place = seasons.ContestFolder(contest).round("initial", "digits")
    place.create()
    cells = tuple(events.CellRecord(defence="filter", attack=attack) for attack in (None, "square"))
    jobs = [
        events.JobRecord(id="made", stage=Stage.PERTURB, submission="square"),
        *(
            events.JobRecord(id=name, stage=Stage.CLASSIFY, submission="filter", cells=cells)
            for name in ("first", "second")
        ),
        events.JobRecord(id="again", stage=Stage.REPLAY, submission="filter", cells=cells),
    ]
    done = [
        events.JobFinished(job=name, stage=Stage.CLASSIFY, submission="x", device=None, seconds=1, sandboxes=[])
        for name in ("made", "first", "second", "again")
    ]
    counts = JobCounts()
    ledger = place.ledger()
    ledger.append(events.PlanMade(jobs=jobs), *done[:2], time=format_time(NOON))
    for entry in ledger.read():
        counts.apply(entry)
    assert [(stage.title, stage.counts) for stage in counts.stages] == [
        ("Attacks make their pictures", "1 of 1 job"),
        ("Defences classify", "1 of 2 jobs, 2 of 4 cells"),
        ("Answers are asked again", "0 of 1 job"),
    ]
    ledger.append(*done[2:], events.StepsLost(jobs=["first"], reason="lost"), time=format_time(NOON))
    for entry in ledger.read():
        counts.apply(entry)
    assert [(stage.finished, stage.cells_finished) for stage in counts.stages] == [(1, 0), (1, 2), (1, 0)]
    ledger.close()


def test_a_submission_that_waits_is_counted_until_it_plays_again(contest):
    """After one was parked the rest of the round is planned without it; a plan with it tries it again."""
    place = seasons.ContestFolder(contest).round("initial", "digits")
    place.create()
    others = events.JobRecord(id="others", stage=Stage.CLASSIFY, submission="others")
    lost = events.JobRecord(id="lost", stage=Stage.PERTURB, submission="lost")
    parked = events.JobParked(job="lost", stage=Stage.PERTURB, submission="lost", code="backend", message="no engine")
    counts = JobCounts()
    ledger = place.ledger()

    def waiting_after(*appended: events.Event) -> list[str]:
        ledger.append(*appended, time=format_time(NOON))
        for entry in ledger.read():
            counts.apply(entry)
        return [job.submission for job in counts.waiting]

    assert waiting_after(events.PlanMade(jobs=[lost, others]), parked) == ["lost"]
    assert waiting_after(events.PlanMade(jobs=[others])) == ["lost"]
    assert waiting_after(events.PlanMade(jobs=[lost, others])) == []
    ledger.close()


@pytest.mark.slow
def test_the_command_says_the_same(contest):
    """`sparring status` has the counts, in words and as JSON, and makes no folder of a round."""
    from typer.testing import CliRunner

    from orchestrator.cli.app import app

    assert "nothing is being played" in CliRunner().invoke(app, ["status", str(contest)]).output
    assert not (contest / "rounds").exists()
    begin_round(contest).close()
    said = CliRunner().invoke(app, ["status", str(contest)]).output
    assert "initial of digits: 1 of 2 jobs finished" in said
    assert "  Attacks make their pictures: 1 of 2 jobs\n" in said
    document = json.loads(CliRunner().invoke(app, ["status", str(contest), "--json"]).stdout)
    assert document["rounds"][0]["waiting"] == [{"submission": "square", "stage": "perturb", "code": "deadline"}]


def test_the_first_page_leads_to_taking_part(world) -> None:
    """A visitor signs up, somebody without a team founds one, and a member goes to the team."""
    people = {each.name: each for each in EVERYBODY}
    found = {name: world.client(people[name]).get("/").content.decode() for name in ("visitor", "Nora", "Ada")}
    assert 'href="/account/signup/?next=/my/"' in found["visitor"]
    assert 'class="button" href="/my/"' in found["Nora"]
    assert 'class="button" href="/my/reds/"' in found["Ada"]
