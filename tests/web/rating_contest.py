"""A contest in which people grade: pictures of two teams, raters with the role, and a grading plan."""

import shutil
from datetime import UTC, datetime, timedelta

import numpy as np

from orchestrator.application.contests import picture_submission, roles, seasons
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.application.grading.raters import rater_id
from orchestrator.domain.contest_events import PersonRecord, Role
from orchestrator.formats.attack_set.events import GradingPlanned
from orchestrator.formats.attack_set.grading.planning import make_plan
from orchestrator.formats.attack_set.grading.rules import GradingRules
from orchestrator.intake.picture_archive import PictureArchive

PICTURES = 20
RULES = GradingRules(distance=2, pictures=12)
SECRET = b"rating" * 6
CONTEST = f"""sparring: 1
contest: digits
title: Digits that mislead
format: attack_set
task:
  name: digits
  dataset: {{kind: digits, split: test, first: {PICTURES}}}
isolation: round
limits: {{memory: 1GiB}}
replay: {{power: 0.5, cheat: 0.2}}
rules: {{tries_per_day: 2, count: correct, grading: {{distance: 2, pictures: 12}}}}
baselines:
  - {{builtin: defence_undefended}}
"""


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = datetime(2026, 12, 1, 9, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Returns the time."""
        return self.now

    def move(self, seconds: float) -> None:
        """Moves the clock forward."""
        self.now += timedelta(seconds=seconds)


def make_contest(folder, clock) -> None:
    """Opens a contest in an empty folder, in which two teams submit pictures."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "contest.yaml").write_text(CONTEST)
    seasons.open_contest(folder, clock=clock)
    with seasons.administer(folder, clock=clock) as admin:
        original = admin.contest.load_samples().pixels
        for team, step in (("Reds", 0), ("Blues", 90)):
            admin.add_team(team, [PersonRecord(id=f"{team.lower()}@example.org", name=f"Captain of the {team}")])
            noise = np.random.default_rng(1).integers(-step, step + 1, original.shape)
            pictures = np.clip(original + noise, 0, 255).astype(np.uint8)
            request = SubmissionRequest(team, "digits", name=team.lower())
            archive = PictureArchive(digest="sha256:" + f"{step:064x}", pixels=pictures, decoder="none")
            picture_submission.admit_pictures(admin, request, lambda archive=archive: archive)


def grant(folder, clock, *accounts) -> None:
    """Gives accounts the role of a rater."""
    with seasons.administer(folder, clock=clock) as admin:
        for account in accounts:
            roles.grant_role(admin, PersonRecord(id=account.person, name=account.name), Role.RATER)


def plan_for(folder, clock, persons, more=("r01", "r02")):
    """Records a plan for people and for additional raters of the offline page, and returns it."""
    with seasons.administer(folder, clock=clock) as admin:
        ids = [*(rater_id(admin.folder.key(), person) for person in persons), *more]
        plan = make_plan(RULES, ["blues", "reds"], PICTURES, ids, SECRET)
        admin.append_event(GradingPlanned(actor="organizer", task="digits", plan=plan))
    return plan
