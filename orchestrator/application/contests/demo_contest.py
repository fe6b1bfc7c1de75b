"""The demo as a season's contest, with its teams, their submissions, and a request for its first round."""

from pathlib import Path

from orchestrator import resources
from orchestrator.application.contests import round_requests, seasons, submission_admission
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.rounds import play_rounds
from orchestrator.application.rounds.play_rounds import RunOptions
from orchestrator.domain.contest_events import PersonRecord
from orchestrator.files import write_whole
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import FILE_NAME, ContestFolder

ROUND = "initial"
_IMAGES = "../../images/"
_SUBMISSIONS = "\nsubmissions:\n"


def create_demo(path: Path, options: RunOptions) -> ContestFolder:
    """Creates a contest folder from the demo's contest file, with each of its submissions received from its team.

    Raises:
        UsageError: the folder is not empty.
        BackendUnavailable: no trial match can be played.
    """
    folder = ContestFolder(path)
    folder.create()
    source = Contest(resources.resource_path("examples", "demo", FILE_NAME))
    text = source.path.read_text("utf-8").partition(_SUBMISSIONS)[0] + "\n"
    write_whole(folder.file, text.replace(_IMAGES, f"{resources.resource_path('images').resolve()}/").encode())
    seasons.open_contest(path)
    with seasons.administer(path) as admin:
        backend = play_rounds.ready_backend(admin.contest, path.resolve(), options)
        for number, entry in enumerate(source.file.submissions, start=1):
            admin.add_team(entry.team, [PersonRecord(id=f"demo-{number}", name=f"{entry.team}'s captain")])
            place = source.folder / (entry.folder or "")
            request = SubmissionRequest(entry.team, admin.contest.only_task, folder=place)
            submission_admission.submit(admin, request, backend)
        round_requests.request_round(admin, ROUND)
    return folder
