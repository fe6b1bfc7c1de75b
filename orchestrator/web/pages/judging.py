"""The raters' pages of an unrestricted contest: one leased picture at a time, judged with the questionnaire (U6).

The pages show a rater neither a picture's team nor its id: the picture's address has the token of the lease.
"""

from collections.abc import Mapping

from django.contrib import messages
from django.http import Http404, HttpResponseBase
from django.urls import reverse

from orchestrator.application.grading import picture_raters
from orchestrator.application.grading.attack_pictures import picture_png
from orchestrator.application.grading.graded_pictures import encode_png
from orchestrator.application.grading.picture_raters import AskedItem
from orchestrator.formats.unrestricted.questionnaire import Answers
from orchestrator.formats.unrestricted.rater_tests import KnownPicture
from orchestrator.formats.unrestricted.state import PictureStatus
from orchestrator.web import leases, unrestricted_mails
from orchestrator.web.file_responses import png
from orchestrator.web.form_actions import attempt, see_other
from orchestrator.web.pages.form_rate_limits import limited
from orchestrator.web.questionnaire import AskedPicture, ask_about
from orchestrator.web.rate_limits import RequestKind
from orchestrator.web.rights import Visit
from orchestrator.web.templating import render
from orchestrator.web.unrestricted_pages import contest_of

_PRACTICE = "Practice: after your answer you see what the picture shows. The answer does not count."
_REMOVED = (
    "You get no more pictures: too many of your answers about pictures whose class is known were wrong. "
    "Your earlier answers stay."
)


@limited(RequestKind.RATING)
def judge(visit: Visit) -> HttpResponseBase:
    """Shows the questions about the picture leased to this rater; takes the answers and redirects to the next one."""
    contest, person = contest_of(visit), visit.actor.person
    if problems := contest.read(lambda state: picture_raters.rater_problems(state, person)):
        return _nothing(visit, "\n".join(map(str, problems)))
    rater = picture_raters.rater_of(contest, person)
    if contest.read(lambda state: picture_raters.is_removed(state, rater)):
        return _nothing(visit, _REMOVED)
    known = picture_raters.known_pictures(visit.site.contest())
    taken = leases.take(rater, picture_raters.asked_items(contest, person, known))
    if taken is None:
        return _nothing(visit, "")
    token, item = taken
    if visit.request.method == "POST" and visit.request.POST.get("lease") != token:
        messages.warning(visit.request, "That picture is not asked of you any more; here is the next one.")
        return see_other("judge")
    form = contest.read(lambda state: picture_raters.form_of(state, item))
    asked = AskedPicture(
        form=form,
        picture=reverse("judge-picture", kwargs={"token": token}),
        action=reverse("judge"),
        take_answers=lambda said: _answer(visit, item, said),
        take_report=lambda: _answer(visit, item, None),
        hidden={"lease": token},
        note=_PRACTICE if item.practice else "",
    )
    return ask_about(visit, asked)


def picture(visit: Visit, token: str) -> HttpResponseBase:
    """Returns the picture of this rater's lease."""
    contest = contest_of(visit)
    found = leases.picture_of(picture_raters.rater_of(contest, visit.actor.person), token)
    if found is None:
        raise Http404
    for known, pixels in picture_raters.known_pictures(visit.site.contest()).items():
        if known.pixels == found:
            return png(encode_png(pixels))
    return png(picture_png(contest, found))


def _answer(visit: Visit, item: AskedItem, said: Mapping[str, object] | None) -> HttpResponseBase:
    contest, person = contest_of(visit), visit.actor.person
    answers = None if said is None else Answers.model_validate(said)
    if item.test is not None:
        return _answer_test(visit, item, item.test, answers)
    before = contest.read(lambda state: state.pictures[item.picture].status)
    problem = attempt(lambda: picture_raters.rate(contest, person, item, answers, visit.site.clock()))
    leases.give_back(picture_raters.rater_of(contest, person))
    if problem:
        messages.warning(visit.request, f"Your answer was not taken: {problem}")
    elif before is PictureStatus.RATING:
        unrestricted_mails.mail_ruling(visit.site, contest, item.picture)
    return see_other("judge")


def _answer_test(visit: Visit, item: AskedItem, test: KnownPicture, answers: Answers | None) -> HttpResponseBase:
    """Records an answer about a picture whose class is known. In practice, tells the rater whether it was right."""
    contest, person, right = contest_of(visit), visit.actor.person, False

    def note() -> None:
        nonlocal right
        now = visit.site.clock()
        right = picture_raters.answer_test(contest, person, test, answers, now, practice=item.practice)

    problem = attempt(note)
    leases.give_back(picture_raters.rater_of(contest, person))
    if problem:
        messages.warning(visit.request, f"Your answer was not taken: {problem}")
    elif item.practice:
        shown = contest.read(lambda state: next(each for each in state.rules.classes if each.name == test.shows))
        told = f"the picture shows {shown.with_article}, and nothing of the other class."
        (messages.success if right else messages.warning)(visit.request, f"{'Right' if right else 'Not so'}: {told}")
    return see_other("judge")


def _nothing(visit: Visit, problem: str) -> HttpResponseBase:
    return render(visit, "weeks/nothing_to_judge.html.j2", problem=problem)
