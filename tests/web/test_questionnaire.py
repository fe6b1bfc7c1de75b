"""The page on which one picture is judged in steps (U6), as a server without scripts has it and in a real browser."""

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests import chromium

from .browsing import AXE, LOOKS, Person, Service, serving_here
from .conftest import client_of

pytestmark = pytest.mark.xdist_group("browser")
PAGE = "/one-picture/"
BIRD = {"presence.bird": "definitely_yes", "presence.bicycle": "definitely_no"}
NEITHER = {"presence.bird": "definitely_no", "presence.bicycle": "definitely_no"}
EDGES = {"box.left": "60", "box.top": "40", "box.right": "201", "box.bottom": "121"}
TRUE = {"statements.complete": "true", "statements.unoccluded": "true", "statements.real": "true"}
ANSWERS = {
    "presence": {"bird": "definitely_yes", "bicycle": "definitely_no"},
    "box": {"left": 60, "top": 40, "right": 201, "bottom": 121},
    "statements": {"complete": True, "unoccluded": True, "real": True},
}


@pytest.fixture
def taken(contest):
    """What was answered so far, in a service with the page."""
    from django.test import override_settings

    with override_settings(ROOT_URLCONF="tests.web.questionnaire_site"):
        from . import questionnaire_site

        questionnaire_site.taken.clear()
        yield questionnaire_site.taken


def send(**fields):
    """Sends fields, and returns status and text."""
    answer = client_of().post(PAGE, {name.replace("__", "."): value for name, value in fields.items()})
    return answer.status_code, answer.content.decode()


def is_second_step(text: str) -> bool:
    """Returns whether a page asks for a box and about statements."""
    return 'name="box.left"' in text and 'name="statements.real"' in text


# ---- The server decides


def test_first_step_asks_two_questions(taken):
    """Nothing of questions 3 and 4 is on the first page, nothing is inline, and no browser keeps it."""
    answer = client_of().get(PAGE)
    text = answer.content.decode()
    assert 'name="presence.bird"' in text
    assert 'name="presence.bicycle"' in text
    assert not is_second_step(text)
    assert "box.js" not in text
    assert "style=" not in text
    assert answer["Cache-Control"] == "private, no-store"


@pytest.mark.slow
def test_u6_the_server_decides_what_is_asked(taken):
    """One definite no and a yes lead to questions 3 and 4; any other pair of answers is taken without them."""
    status, text = send(step="presence", **BIRD)
    assert (status, is_second_step(text), taken) == (200, True, [])
    assert "Definitely no" in text
    assert "True/False statements about the labeled bird." in text
    assert send(step="presence", **NEITHER)[0] == 200
    assert taken == [{"presence": {"bird": "definitely_no", "bicycle": "definitely_no"}}]
    status, text = send(step="object", **BIRD, **EDGES, **TRUE)
    assert (status, taken[1:]) == (200, [ANSWERS])


def test_u6_no_client_skips_a_question_or_answers_one_that_is_not_asked(taken):
    """Skipping the first step leads back to it; a box beside two definite noes is dropped."""
    status, text = send(step="object", **EDGES, **TRUE)
    assert (status, is_second_step(text)) == (422, False)
    status, text = send(step="object", **BIRD)
    assert (status, is_second_step(text)) == (422, True)
    status, text = send(step="presence", **BIRD, **EDGES, **TRUE)
    assert (status, is_second_step(text)) == (200, True)
    assert taken == []
    send(step="object", **NEITHER, **EDGES, **TRUE)
    assert taken == [{"presence": {"bird": "definitely_no", "bicycle": "definitely_no"}}]


def test_every_wrong_field_is_named_and_keeps_its_value(taken):
    """A refused page says at each field what is wrong with it, and nothing that was right is lost."""
    status, text = send(step="object", **BIRD, **{"box.left": "12", "box.right": "999", "box.top": "x<y"}, **TRUE)
    assert status == 422
    assert "999 lies outside the picture; write at most 240." in text
    assert 'value="x&lt;y"' in text
    assert 'name="box.left" value="12"' in text
    assert text.count('aria-invalid="true"') == 3
    assert text.count(" checked") == 3
    status, text = send(step="presence", **{"presence.bird": "perhaps"})
    assert (status, text.count('aria-invalid="true"')) == (422, 2)
    status, text = send(step="object", **BIRD, **EDGES | {"box.right": "60"}, **TRUE)
    assert "Right is 60, and has to be more than left, which is 60" in text
    assert taken == []


def test_first_answers_can_be_changed(taken):
    """The way back shows them as they were given."""
    status, text = send(step="object", act="change", **BIRD)
    assert (status, is_second_step(text), text.count(" checked")) == (200, False, 2)


def test_a_report_is_asked_about_once_more(taken):
    """One key pressed by mistake reports nothing."""
    status, text = send(step="presence", act="report")
    assert (status, taken) == (200, [])
    assert "Report this picture?" in text
    assert send(act="confirm-report")[0] == 200
    assert taken == ["report"]


# ---- A real browser


@pytest.fixture
def person(taken, running_browser, tmp_path):
    """Somebody at a browser who has the page open."""
    with serving_here() as address:
        chromium.start_afresh(running_browser, tmp_path, address)
        somebody = Person(running_browser, Service(address, None, tmp_path / "log"))
        somebody.go(PAGE)
        yield somebody


def press(person, *keys):
    """Types keys, wherever the focus is."""
    ActionChains(person.driver).send_keys(*keys).perform()


def await_painted(person):
    """Waits until the picture was on the screen: before, nothing can be sent."""
    driver = person.driver
    chromium.wait(
        driver, lambda: driver.execute_script("return document.querySelector('#rating')?.dataset.painted"), "a picture"
    )


def to_the_box(person):
    """Answers the first step with two keys."""
    await_painted(person)
    press(person, "1", "8", Keys.ENTER)
    chromium.wait(person.driver, lambda: person.driver.find_elements(By.ID, "box"), "the second step")
    await_painted(person)


def await_kept(person, taken):
    """Waits until the answers are kept, and returns them."""
    chromium.wait(person.driver, lambda: person.driver.title == "Kept", "answers that are kept")
    return taken


def edges(person):
    """Returns the four numbers on the page, "" for one that is empty."""
    return [
        person.driver.find_element(By.NAME, f"box.{edge}").get_property("value")
        for edge in ("left", "top", "right", "bottom")
    ]


def state(person):
    """Returns what is said of the drawing."""
    return person.driver.find_element(By.ID, "box-state").text


def at(person, x, y):
    """Returns the offset from the middle of the drawing, in CSS pixels, of a pixel's upper left corner."""
    shown = person.driver.find_element(By.CSS_SELECTOR, "#picture svg").size
    return round(shown["width"] * (x / 240 - 0.5)), round(shown["height"] * (y / 160 - 0.5))


@pytest.mark.slow
def test_u6_by_keyboard_alone(person, taken):
    """Keys choose, draw the box, answer and send; the console stays empty."""
    to_the_box(person)
    for _ in range(30):
        press(person, Keys.TAB)
        if person.driver.switch_to.active_element.text == "Draw with the arrow keys":
            break
    press(person, Keys.ENTER)
    assert state(person).startswith("First corner: 60, 40.")
    press(person, Keys.ENTER)
    shift = ActionChains(person.driver).key_down(Keys.SHIFT)
    shift.send_keys(*[Keys.ARROW_RIGHT] * 14, *[Keys.ARROW_DOWN] * 8).key_up(Keys.SHIFT).perform()
    press(person, Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    assert state(person).startswith("Opposite corner: 201, 121.")
    press(person, Keys.ENTER)
    assert state(person) == "The box is drawn: left 60, top 40, right 201, bottom 121."
    press(person, "1", "3", "5", Keys.TAB, Keys.ENTER)
    assert await_kept(person, taken) == [ANSWERS]
    assert person.console() == []


@pytest.mark.slow
def test_the_box_by_mouse_by_two_clicks_and_by_numbers(person, taken):
    """Dragging, two clicks in any order of corners, and typed numbers give the same kind of box."""
    to_the_box(person)
    canvas = person.driver.find_element(By.CSS_SELECTOR, "#picture svg")
    act = ActionChains(person.driver)
    act.move_to_element_with_offset(canvas, *at(person, 200, 120)).click_and_hold()
    act.move_to_element_with_offset(canvas, *at(person, 100, 90))
    act.move_to_element_with_offset(canvas, *at(person, 50, 30)).release().perform()
    assert edges(person) == ["50", "30", "200", "120"]
    act = ActionChains(person.driver)
    act.move_to_element_with_offset(canvas, *at(person, 20, 10)).click().perform()
    assert state(person) == "Now click the opposite corner."
    ActionChains(person.driver).move_to_element_with_offset(canvas, *at(person, 20, 80)).click().perform()
    assert state(person).startswith("The corners have to differ")
    ActionChains(person.driver).move_to_element_with_offset(canvas, *at(person, 120, 110)).click().perform()
    assert edges(person) == ["20", "10", "120", "110"]
    left = person.driver.find_element(By.NAME, "box.left")
    left.send_keys(Keys.ARROW_UP, Keys.ARROW_UP)
    left.send_keys(Keys.SHIFT + Keys.ARROW_DOWN)
    assert edges(person)[0] == "12"
    drawn = person.driver.find_element(By.CSS_SELECTOR, "#picture rect.over")
    assert [drawn.get_attribute(name) for name in ("x", "y", "width", "height")] == ["12", "10", "108", "100"]
    person.fill(**EDGES)
    assert drawn.get_attribute("width") == "141"
    left.send_keys(Keys.END, Keys.BACKSPACE, Keys.BACKSPACE)
    assert drawn.get_attribute("visibility") == "hidden"
    assert person.console() == []


@pytest.mark.slow
def test_it_works_without_scripts(person, taken):
    """Native fields alone answer all questions, and no button is shown that would do nothing."""
    driver = person.driver
    chromium.switch_scripts_off(driver)
    person.go(PAGE)
    for name, value in BIRD.items():
        driver.find_element(By.CSS_SELECTOR, f"[name='{name}'][value={value}]").send_keys(Keys.SPACE)
    driver.find_element(By.CSS_SELECTOR, "button[type=submit]:not([name], .link)").send_keys(Keys.ENTER)
    chromium.wait(driver, lambda: driver.find_elements(By.ID, "box"), "the second step")
    assert not driver.find_element(By.CSS_SELECTOR, "#box button").is_displayed()
    assert not driver.find_element(By.ID, "keys").is_displayed()
    person.fill(**EDGES)
    for name in TRUE:
        driver.find_element(By.CSS_SELECTOR, f"[name='{name}'][value=true]").send_keys(Keys.SPACE)
    driver.find_element(By.NAME, "box.left").send_keys(Keys.ENTER)
    assert await_kept(person, taken) == [ANSWERS]
    assert person.console() == []


@pytest.mark.slow
def test_what_is_wrong_stays_on_the_page(person, require):
    """The page with what is wrong tells it beside each field, and the scripts leave that alone."""
    if not AXE.is_file():
        require("axe", f"there is no {AXE}; run .ci/axe.sh")
    to_the_box(person)
    person.driver.execute_script("document.getElementById('rating').noValidate = true")
    person.fill(**EDGES | {"box.right": "999"})
    person.driver.find_element(By.NAME, "box.right").send_keys(Keys.ENTER)
    chromium.wait(person.driver, lambda: person.driver.find_elements(By.CSS_SELECTOR, ".wrong"), "the page again")
    await_painted(person)
    assert person.driver.find_element(By.CSS_SELECTOR, ".notes.found").text == "4 answers missing or wrong: see below."
    assert person.axe_violations() == []
    assert [each.text for each in person.driver.find_elements(By.CSS_SELECTOR, ".wrong")] == [
        "999 lies outside the picture; write at most 240.",
        *["No answer to this question."] * 3,
    ]
    assert edges(person) == ["60", "40", "999", "121"]


@pytest.mark.slow
def test_each_look_of_each_step(person, require, tmp_path):
    """Nothing keeps anybody from using a step, in light at 320 pixels and in dark on a desk; the mouse draws."""
    if not AXE.is_file():
        require("axe", f"there is no {AXE}; run .ci/axe.sh")
    for scheme, width in LOOKS:
        person.look(scheme, width)
        person.go(PAGE)
        await_painted(person)
        assert (person.axe_violations(), person.overflow()) == ([], 0)
        to_the_box(person)
        canvas = person.driver.find_element(By.CSS_SELECTOR, "#picture svg")
        act = ActionChains(person.driver).move_to_element_with_offset(canvas, *at(person, 60, 40)).click_and_hold()
        act.move_to_element_with_offset(canvas, *at(person, 200, 120)).release().perform()
        assert [abs(int(found) - drawn) <= 1 for found, drawn in zip(edges(person), (60, 40, 200, 120), strict=True)]
        assert (person.axe_violations(), person.overflow()) == ([], 0)
        assert person.driver.find_element(By.CSS_SELECTOR, ".unfit[hidden]").text == ""
        person.driver.find_element(By.CSS_SELECTOR, "[value=report]").click()
        chromium.wait(person.driver, lambda: person.driver.title.startswith("Report"), "the question")
        assert (person.axe_violations(), person.overflow()) == ([], 0)
    assert person.console() == []
