"""Uploads in parts: offsets, digests, one writer at a time, quotas, the close, and what killed processes leave."""

import threading

import pytest

from orchestrator.application.contests import arrivals, seasons, submission_closing
from orchestrator.web.upload_files import unfinished_files
from tests.web import asgi

DATA = bytes(range(256)) * 1000


@pytest.fixture
def clock(contest):
    """The time of day of the contest that is served."""
    from orchestrator.web.contest_site import current_site
    from tests.web.api_client import Clock

    current_site().clock = Clock()
    return current_site().clock


@pytest.fixture
def team(contest, clock):
    """Programs of Ada, of the team Corner Shop."""
    from tests.web import api_client

    api = api_client.make_api("Ada", now=clock.now)
    api_client.join_team(contest, api.account, clock=clock)
    return api


def codes(answer):
    """Returns an answer's status and code."""
    return answer.status_code, answer.json()["code"]


def arrived(contest):
    """Returns everything that arrived."""
    with seasons.administer(contest) as admin:
        return list(admin.season.arrivals.values())


def limit_file(contest, largest):
    """Has the service take files of this size at most."""
    from django.test import override_settings

    from orchestrator.web.settings import WebFile, WebSettings
    from tests.web.conftest import ADDRESS

    file = WebFile(largest_upload=largest)
    return override_settings(SPARRING=WebSettings(contest=contest, address=ADDRESS, file=file))


def test_a_file_comes_in_parts(contest, team, clock):
    """Its offset is told, and after the last part it is an arrival, whose time is that of the last part."""
    path = team.upload_path(team.begin_upload(DATA))
    assert (team.head(path)["Upload-Offset"], team.head(path)["Upload-Length"]) == ("0", str(len(DATA)))
    first = team.patch(path, 0, DATA[:1000])
    assert (first.status_code, first["Upload-Offset"]) == (204, "1000")
    clock.pass_time(hours=1)
    last = team.patch(path, 1000, DATA[1000:])
    [arrival] = arrived(contest)
    assert last["Sparring-Arrival"] == arrival.id == team.head(path)["Sparring-Arrival"]
    assert (arrival.time, arrival.size, arrival.actor) == (
        "2027-03-01T13:00:00.000+00:00",
        len(DATA),
        team.account.person,
    )
    [package] = arrivals.arrival_folder(contest, arrival.id).glob("package*")
    assert package.read_bytes() == DATA


def test_what_tus_is_spoken(team):
    """Version, extensions and the largest file; another version is refused."""
    answer = team.send("OPTIONS", "/uploads")
    assert (answer["Tus-Version"], answer["Tus-Extension"]) == ("1.0.0", "creation,expiration,termination")
    assert answer["Tus-Max-Size"] == str(4 * 1024**3)
    assert codes(team.send("POST", "/uploads", Tus_Resumable="0.2.2")) == (412, "tus-version")


def test_a_part_at_another_offset_is_refused(team):
    """And writes nothing."""
    path = team.upload_path(team.begin_upload(DATA))
    assert codes(team.patch(path, 1, DATA[1:])) == (409, "offset-mismatch")
    assert team.head(path)["Upload-Offset"] == "0"


def test_more_than_was_promised_is_refused(contest, team):
    """And writes nothing."""
    path = team.upload_path(team.begin_upload(DATA))
    assert codes(team.patch(path, 0, DATA + b"x")) == (413, "too-large")
    assert (team.head(path)["Upload-Offset"], arrived(contest)) == ("0", [])


def test_a_large_part_is_refused(team, monkeypatch):
    """16 MiB is the most."""
    from orchestrator.web import uploads

    monkeypatch.setattr(uploads, "PART_BYTES", 1000)
    path = team.upload_path(team.begin_upload(DATA))
    assert codes(team.patch(path, 0, DATA)) == (413, "too-large")
    assert team.patch(path, 0, DATA[:1000]).status_code == 204


def test_another_digest_ends_it(contest, team):
    """The upload is gone with its file, and nothing arrived."""
    path = team.upload_path(team.begin_upload(DATA, digest="0" * 64))
    assert codes(team.patch(path, 0, DATA)) == (422, "digest-mismatch")
    assert team.head(path).status_code == 404
    assert arrived(contest) == []
    assert [each.name for each in (contest / "web" / "uploads").iterdir()] == [".creating"]


def test_the_same_again_goes_on_where_it_was(team):
    """A client that was killed knows nothing of its upload, and begins it again."""
    first = team.begin_upload(DATA)
    team.patch(team.upload_path(first), 0, DATA[:5])
    again = team.begin_upload(DATA)
    assert (first.status_code, again.status_code) == (201, 200)
    assert (again["Location"], again["Upload-Offset"]) == (first["Location"], "5")


def test_what_arrived_is_not_uploaded_again(team):
    """The arrival is the answer."""
    arrival = team.upload(DATA)
    again = team.begin_upload(DATA)
    assert (again.status_code, again["Sparring-Arrival"], again.json()["state"]) == (200, arrival, "waiting")


def test_a_digest_that_was_lost_is_computed_again(contest, team, monkeypatch):
    """A process that was started anew goes on with what is on the disk."""
    from orchestrator.web import uploads

    path = team.upload_path(team.begin_upload(DATA))
    team.patch(path, 0, DATA[:70_000])
    monkeypatch.setattr(uploads, "_digests", uploads._RunningDigests())
    assert team.head(path)["Upload-Offset"] == "70000"
    assert team.patch(path, 70_000, DATA[70_000:]).status_code == 204
    assert len(arrived(contest)) == 1


def test_each_process_reads_a_part_at_most_once(contest, team, monkeypatch):
    """Of two processes that write in turns, each reads what the other wrote since, not the whole file again.

    The first process digested the first part before that part changes on the disk here, so it must not read it again.
    """
    from orchestrator.web import uploads

    one, other = uploads._RunningDigests(), uploads._RunningDigests()
    path = team.upload_path(team.begin_upload(DATA))
    monkeypatch.setattr(uploads, "_digests", one)
    team.patch(path, 0, DATA[:40_000])
    monkeypatch.setattr(uploads, "_digests", other)
    team.patch(path, 40_000, DATA[40_000:70_000])
    with uploads._path(path.rpartition("/")[2]).open("r+b") as file:
        file.write(b"?" * 40_000)
    monkeypatch.setattr(uploads, "_digests", one)
    assert team.head(path)["Upload-Offset"] == "70000"
    assert team.patch(path, 70_000, DATA[70_000:]).status_code == 204
    assert len(arrived(contest)) == 1


def test_bytes_behind_the_offset_are_forgotten(contest, team):
    """A process that was killed between the file and the row left some."""
    from orchestrator.web import uploads

    path = team.upload_path(team.begin_upload(DATA))
    team.patch(path, 0, DATA[:10])
    with uploads._path(path.rpartition("/")[2]).open("ab") as file:
        file.write(b"?" * len(DATA))
    assert team.patch(path, 10, DATA[10:]).status_code == 204
    [arrival] = arrived(contest)
    assert arrival.size == len(DATA)


def test_a_kill_before_the_arrival_costs_nothing(contest, team, monkeypatch):
    """All bytes are here and nothing was noted: an empty part at the end asks once more."""
    path = team.upload_path(team.begin_upload(DATA))
    with monkeypatch.context() as killed:
        killed.setattr(arrivals, "record_arrival", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            team.patch(path, 0, DATA)
    assert (team.head(path)["Upload-Offset"], arrived(contest)) == (str(len(DATA)), [])
    answer = team.patch(path, len(DATA), b"")
    assert [answer["Sparring-Arrival"]] == [each.id for each in arrived(contest)]


def test_a_kill_after_the_arrival_costs_nothing(contest, team):
    """The file was moved and the row does not say so: the arrival is found by its digest."""
    from orchestrator.web.models import Upload

    path = team.upload_path(team.begin_upload(DATA))
    arrival = team.patch(path, 0, DATA)["Sparring-Arrival"]
    Upload.objects.update(arrival="")
    assert team.patch(path, len(DATA), b"")["Sparring-Arrival"] == arrival
    assert len(arrived(contest)) == 1


def test_one_writer_at_a_time(contest, team):
    """While one part is being written, another is refused; the first one is whole."""
    from django.db import connection

    from orchestrator.web import uploads
    from orchestrator.web.contest_site import current_site
    from orchestrator.web.models import Upload

    path = team.upload_path(team.begin_upload(DATA))
    begun, go_on = threading.Event(), threading.Event()

    class SlowPart:
        """Half of the bytes, then a wait, then the others."""

        def __init__(self):
            self.pieces = [DATA[:1000], DATA[1000:], b""]

        def read(self, _size):
            if len(self.pieces) == 2:
                begun.set()
                assert go_on.wait(60)
            return self.pieces.pop(0)

    def write():
        try:
            part = uploads.Part(0, len(DATA), SlowPart(), current_site().clock())
            uploads.write_part(current_site(), team.account, Upload.objects.get(), part)
        finally:
            connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    assert begun.wait(60)
    try:
        assert codes(team.patch(path, 0, b"y" * len(DATA))) == (409, "upload-busy")
        assert codes(team.send("DELETE", path, Tus_Resumable="1.0.0")) == (409, "upload-busy")
    finally:
        go_on.set()
        writer.join()
    assert len(arrived(contest)) == 1


def test_the_close_passes_during_an_upload(contest, team, clock):
    """What is whole after the close did not arrive; the organizers may move the close, and it is asked once more."""
    file = contest / "contest.yaml"
    text = file.read_text("utf-8")
    file.write_text(text + "\ncloses: 2027-03-01T14:00:00Z\n", "utf-8")
    path = team.upload_path(team.begin_upload(DATA))
    team.patch(path, 0, DATA[:10])
    clock.pass_time(hours=2)
    answer = team.patch(path, 10, DATA[10:])
    assert codes(answer) == (409, "rejected")
    assert answer.json()["problems"][0]["place"] == "time"
    assert arrived(contest) == []
    assert codes(team.begin_upload(b"another")) == (409, "rejected")
    file.write_text(text + "\ncloses: 2027-03-01T15:00:00Z\n", "utf-8")
    assert team.patch(path, len(DATA), b"").status_code == 204


def test_the_organizers_close_during_an_upload(contest, team, clock):
    """What is not whole by then is under way for the organizers, and refused with when and why until they reopen."""
    from orchestrator.web import uploads

    def act(do, reason: str) -> None:
        with seasons.administer(contest, "desk", clock) as admin:
            do(admin, reason)

    path = team.upload_path(team.begin_upload(DATA))
    team.patch(path, 0, DATA[:10])
    [under_way] = uploads.uploads_under_way(clock())
    assert (under_way.received, under_way.size, under_way.task) == (10, len(DATA), "digits")
    assert [each.received for each in unfinished_files(contest)] == [10]
    act(submission_closing.close_submissions, "enough")
    answer = team.patch(path, 10, DATA[10:])
    assert codes(answer) == (409, "rejected")
    [problem] = answer.json()["problems"]
    assert problem["place"] == "time"
    assert problem["what"].startswith("the organizers closed submissions at 2027-03-01T")
    assert "(enough)" in problem["what"]
    assert arrived(contest) == []
    assert codes(team.begin_upload(b"another")) == (409, "rejected")
    act(submission_closing.reopen_submissions, "too early")
    assert team.patch(path, len(DATA), b"").status_code == 204
    assert unfinished_files(contest) == uploads.uploads_under_way(clock()) == []


def test_a_last_byte_before_the_close_counts_after_it(contest, team, clock):
    """Its time is told, and who sends the same once more after the close is answered with it."""
    file = contest / "contest.yaml"
    file.write_text(file.read_text("utf-8") + "\ncloses: 2027-03-01T14:00:00Z\n", "utf-8")
    path = team.upload_path(team.begin_upload(DATA))
    team.patch(path, 0, DATA[:10])
    clock.pass_time(hours=1, minutes=59, seconds=59)
    arrival = team.patch(path, 10, DATA[10:])["Sparring-Arrival"]
    clock.pass_time(days=1)
    found = team.get(f"/arrivals/{arrival}").json()
    assert (found["time"], found["state"]) == ("2027-03-01T13:59:59.000+00:00", "waiting")
    again = team.begin_upload(DATA)
    assert (again.status_code, again["Sparring-Arrival"]) == (200, arrival)


def test_a_last_byte_before_the_close_may_wait_for_a_thread(contest, team, clock, monkeypatch):
    """Many submit at the last moment: what counts is when the body was whole, not when somebody looked at it."""
    from orchestrator.web import arrival_time

    file = contest / "contest.yaml"
    file.write_text(file.read_text("utf-8") + "\ncloses: 2027-03-01T12:00:02Z\n", "utf-8")
    path = team.upload_path(team.begin_upload(DATA))
    seconds = [100.0]
    monkeypatch.setattr(arrival_time, "monotonic", lambda: seconds[0])

    def wait_and_respond(scope, request):
        clock.pass_time(seconds=5)
        seconds[0] += 5
        return respond(scope, request)

    headers = {
        "Authorization": f"Bearer {team.token}",
        "Tus_Resumable": "1.0.0",
        "Upload_Offset": "0",
        "Content_Type": "application/offset+octet-stream",
        "Content_Length": str(len(DATA)),
    }
    with asgi.running_application() as application:
        respond = application._respond
        monkeypatch.setattr(application, "_respond", wait_and_respond)
        answer = asgi.ask(application, f"/api/v1{path}", "PATCH", pieces=(DATA,), **headers)
    assert answer.status == 204, answer.body
    [arrival] = arrived(contest)
    assert arrival.time == "2027-03-01T12:00:00.000+00:00"


def test_others_uploads_are_not_there(contest, team, clock):
    """404 for every method, and nobody uploads for another team."""
    from tests.web import api_client

    path = team.upload_path(team.begin_upload(DATA))
    others = api_client.make_api("Bob", now=clock.now)
    api_client.join_team(contest, others.account, "Others", clock=clock)
    assert others.head(path).status_code == 404
    assert others.patch(path, 0, DATA).status_code == 404
    assert others.send("DELETE", path, Tus_Resumable="1.0.0").status_code == 404
    assert others.begin_upload(DATA).status_code == 404


def test_a_cancelled_upload_is_gone(contest, team):
    """With its file."""
    path = team.upload_path(team.begin_upload(DATA))
    assert team.send("DELETE", path, Tus_Resumable="1.0.0").status_code == 204
    assert team.head(path).status_code == 404
    assert [each.name for each in (contest / "web" / "uploads").iterdir()] == [".creating"]


@pytest.mark.slow
def test_a_team_has_few_uploads_at_once(team):
    """Five, until one is finished or cancelled."""
    begun = [team.begin_upload(bytes([number]) * 10) for number in range(6)]
    assert [answer.status_code for answer in begun] == [201] * 5 + [409]
    assert begun[-1].json()["code"] == "too-many-uploads"
    team.patch(team.upload_path(begun[0]), 0, bytes([0]) * 10)
    assert team.begin_upload(bytes([5]) * 10).status_code == 201


def test_a_teams_uploads_take_bounded_space(contest, team):
    """Two of the largest together, and none that is larger."""
    with limit_file(contest, 100):
        assert codes(team.begin_upload(b"x" * 101)) == (413, "too-large")
        assert [team.begin_upload(letter * 100).status_code for letter in (b"a", b"b")] == [201, 201]
        assert codes(team.begin_upload(b"c")) == (409, "too-many-uploads")


def test_a_full_disk_is_said_before_the_bytes_come(team, monkeypatch):
    """With a reserve, and with what was promised to others."""
    from orchestrator.web import uploads

    class Usage:
        free = uploads.RESERVED_BYTES + 150

    monkeypatch.setattr(uploads.shutil, "disk_usage", lambda _: Usage)
    assert team.begin_upload(b"a" * 100).status_code == 201
    assert codes(team.begin_upload(b"b" * 100)) == (507, "no-space")


def test_uploads_expire(contest, team, clock):
    """A day after their last part; the next upload sweeps them away."""
    path = team.upload_path(team.begin_upload(DATA))
    clock.pass_time(hours=23)
    team.patch(path, 0, DATA[:10])
    clock.pass_time(hours=23)
    assert team.head(path).status_code == 200
    clock.pass_time(hours=1)
    assert team.head(path).status_code == 404
    fresh = team.upload_path(team.begin_upload(b"another"))
    names = {each.name for each in (contest / "web" / "uploads").iterdir()}
    assert names == {".creating", fresh.rpartition("/")[2]}


def test_files_of_deleted_accounts_are_swept(contest, team, clock):
    """Their rows go with the account."""
    from tests.web import api_client

    old = team.upload_path(team.begin_upload(DATA)).rpartition("/")[2]
    team.account.delete()
    another = api_client.make_api("Eve", now=clock.now)
    api_client.join_team(contest, another.account, "Third", clock=clock)
    assert another.begin_upload(b"new", team="Third").status_code == 201
    assert not (contest / "web" / "uploads" / old).exists()


@pytest.mark.parametrize(
    ("said", "place"),
    [
        pytest.param({"sha256": "no"}, "Upload-Metadata.sha256", id="digest"),
        pytest.param({"colour": "red"}, "Upload-Metadata.colour", id="unknown word"),
        pytest.param({"side": "both"}, "Upload-Metadata.side", id="side"),
        pytest.param({"filename": "a\nb"}, "Upload-Metadata.filename", id="control character"),
    ],
)
def test_wrong_words_are_named(team, said, place):
    """With the place."""
    digest = said.pop("sha256", None)
    answer = team.begin_upload(DATA, digest=digest, **said)
    assert codes(answer) == (422, "invalid")
    assert answer.json()["problems"][0]["place"] == place


@pytest.mark.parametrize("header", ["team", "team !", "team QQ==,", ""])
def test_malformed_metadata_is_refused(team, header):
    """It is pairs of words and base64."""
    answer = team.send("POST", "/uploads", Tus_Resumable="1.0.0", Upload_Length="5", Upload_Metadata=header)
    assert codes(answer) == (422, "invalid")


@pytest.mark.parametrize("length", ["", "-1", "0", "9" * 30, "1e3"])
def test_a_length_is_a_number_of_bytes(team, length):
    """More than none."""
    answer = team.send("POST", "/uploads", Tus_Resumable="1.0.0", Upload_Length=length)
    assert codes(answer) == (422, "invalid")


def test_an_unknown_task_is_refused_before_the_bytes_come(team):
    """By the contest's rules."""
    answer = team.begin_upload(DATA, task="letters")
    assert codes(answer) == (409, "rejected")
    assert [each["place"] for each in answer.json()["problems"]] == ["task"]
