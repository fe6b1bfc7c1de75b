"""The service with an additional page that asks everybody about one picture and keeps the answers in `taken`.

Import it only after Django is configured.
"""

import io

from django.http import HttpResponse
from django.urls import path
from PIL import Image, ImageDraw

from orchestrator.formats.unrestricted.bounding_boxes import PictureSize
from orchestrator.formats.unrestricted.questionnaire import Questionnaire
from orchestrator.formats.unrestricted.rating_form import RatingForm
from orchestrator.web import urls
from orchestrator.web.questionnaire import AskedPicture, ask_about
from orchestrator.web.rights import Right, allowed

SIZE = PictureSize(height=160, width=240)
taken: list[object] = []
"""The answers so far, as JSON documents; "report" for a report."""


def _keep(what):
    taken.append(what)
    return HttpResponse(
        "<!DOCTYPE html><html lang=en><title>Kept</title><link rel=icon href=/one-picture.png><h1>Kept</h1></html>"
    )


def _ask(visit):
    asked = AskedPicture(
        form=RatingForm(Questionnaire(), SIZE),
        picture="/one-picture.png",
        action="/one-picture/",
        take_answers=_keep,
        take_report=lambda: _keep("report"),
        hidden={"stamp": "of this page"},
    )
    return ask_about(visit, asked)


def _picture(visit):
    picture = Image.new("RGB", (SIZE.width, SIZE.height), (120, 170, 210))
    drawn = ImageDraw.Draw(picture)
    drawn.ellipse((60, 40, 180, 120), fill=(90, 60, 40))
    drawn.polygon([(176, 70), (200, 82), (176, 92)], fill=(230, 180, 40))
    drawn.ellipse((150, 60, 160, 70), fill=(250, 250, 250))
    file = io.BytesIO()
    picture.save(file, "PNG")
    return HttpResponse(file.getvalue(), content_type="image/png")


urlpatterns = [
    *urls.urlpatterns,
    path("one-picture/", allowed(_ask, Right.EVERYBODY)),
    path("one-picture.png", allowed(_picture, Right.EVERYBODY)),
]
