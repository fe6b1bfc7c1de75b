"""The grading page in a real browser, opened from a file."""

import base64
import io

import numpy as np
import pytest
from PIL import Image
from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver.common.by import By

from orchestrator.formats.attack_set.grading.answers_csv import read_answers_csv
from orchestrator.formats.attack_set.grading.sheets import MINIMUM_MILLISECONDS, Answer, AnswerFile, GradingTask
from tests import chromium

from .conftest import CLASSES, GRADES, picture, sheet_of, token
from .rater import BACK, ENTER, LEFT, RIGHT, SPACE, TAB, Rater, said

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(chromium.GROUP)]
VALID, QUALITY = GradingTask.VALID, GradingTask.QUALITY
UNFIT_DISPLAYS = (
    ((500, 900, 1), "the pictures need 536"),
    ((1366, 200, 1), "the pictures need 256"),
    ((1600, 1200, 0.8), "zoomed out (device pixel ratio 0.80)"),
)
"""Width and height in CSS pixels and pixels of the screen for each, and what the page says of it."""
FILES_OF_SOMETHING_ELSE = (
    ({"rater": "rater-8"}, "it is another rater's"),
    ({"plan": "cd" * 32}, "it belongs to another grading plan"),
    ({"answers": [Answer(token="ff" * 8, grade=1, milliseconds=600)]}, "to no picture"),
    ({"answers": [Answer(token=token(1), milliseconds=600)]}, "damaged"),
    (None, "not a JSON file"),
)
"""What differs in a file, None for no JSON, and what the page says of it."""


@pytest.fixture
def rater(running_browser, tmp_path):
    """Returns `rater(sheet)`: a rater with the page open in a browser that has not seen it before."""

    def start(sheet) -> Rater:
        person = Rater(running_browser, sheet, tmp_path)
        chromium.start_afresh(person.driver, person.downloads)
        person.open()
        return person

    return start


def test_a_sheet_by_keyboard_alone(rater) -> None:
    """Practice, both tasks and the saved file need no mouse; every answer is in the file, with its time."""
    one = rater(sheet_of(VALID, QUALITY, VALID, VALID, QUALITY, VALID, practice=2))
    one.await_screen("start")
    assert "The first 2 are practice" in one.text("start")
    one.press(ENTER)
    assert one.text("practice") == "Practice: does not count"
    one.answer(token(1), "1", "y")
    one.answer(token(2), "5")
    one.await_screen("counting")
    one.press(SPACE)
    one.answer(token(3), "0", "n")
    one.answer(token(4), "x", "Y")
    one.answer(token(5), "2")
    one.look(token(6))
    one.press(*[TAB] * 3, ENTER)  # from the question to the third class
    one.press(*[TAB] * 8, SPACE)  # and on to the eleventh button, none of them
    one.press("y")
    one.await_screen("done")
    one.press(ENTER)
    file = one.saved()
    assert said(file.answers) == [
        (1, 0, True, None),
        (2, None, None, 5),
        (3, 9, False, None),
        (4, None, True, None),
        (5, None, None, 2),
        (6, None, True, None),
    ]
    assert all(each.milliseconds >= MINIMUM_MILLISECONDS for each in file.answers)
    assert {each.device_pixel_ratio for each in file.answers} == {1.0}
    assert one.console() == []


def test_a_sheet_by_mouse(rater) -> None:
    """The same answers by clicks, and the table has what the JSON has."""
    one = rater(sheet_of(VALID, QUALITY))
    buttons = {"valid": ("cat", "No"), "quality": ("slightly annoying",)}
    one.element("begin").click()
    for number, task in enumerate((VALID, QUALITY), start=1):
        one.look(token(number))
        for name in buttons[task]:
            one.driver.find_element(By.XPATH, f"//button[not(ancestor::*[@hidden])][span[text()='{name}']]").click()
    one.await_screen("done")
    one.element("save-csv").click()
    table = read_answers_csv(one.downloaded("csv"))
    one.driver.find_element(By.CSS_SELECTOR, "footer [data-save=json]").click()
    assert one.saved() == table
    assert said(table.answers) == [(1, 3, False, None), (2, None, None, 3)]


@pytest.mark.parametrize("task", [VALID, QUALITY])
def test_pictures_are_enlarged_eight_times_without_a_blur(rater, task) -> None:
    """Each pixel of a picture is a square of 8 x 8 pixels of the screen of its very colour, on grey 128."""
    one = rater(sheet_of(task))
    one.press(ENTER)
    one.await_painted(token(1))
    screen = np.asarray(Image.open(io.BytesIO(one.driver.get_screenshot_as_png())).convert("RGB"))
    shown = {"picture": picture(1)} | ({"original": picture(1001)} if task is QUALITY else {})
    for name, pixels in shown.items():
        box = one.driver.execute_script("return arguments[0].getBoundingClientRect().toJSON()", one.element(name))
        assert (box["width"], box["height"]) == (256, 256)
        assert one.element(name).value_of_css_property("image-rendering") == "pixelated"
        top, left = round(box["top"]), round(box["left"])
        enlarged = pixels.repeat(8, axis=0).repeat(8, axis=1)
        assert np.array_equal(screen[top : top + 256, left : left + 256], enlarged)
        assert (screen[top : top + 256, left - 4 : left] == 128).all()
        assert (screen[top + 256 : top + 260, left : left + 256] == 128).all()
    assert one.element("original").is_displayed() == (task is QUALITY)
    labels = [each.text for each in one.driver.find_elements(By.TAG_NAME, "figcaption") if each.is_displayed()]
    assert labels == (["Original", "Submitted"] if task is QUALITY else [])


@pytest.mark.parametrize("how", ["reload", "new-tab"])
def test_nothing_is_lost_when_the_page_is_closed(rater, how) -> None:
    """After a reload, or in a new tab after the old one was closed, the next item is the one that was due."""
    one = rater(sheet_of(QUALITY, QUALITY, QUALITY, practice=1))
    one.press(ENTER)
    one.answer(token(1), "1")
    one.await_screen("counting")
    one.press(ENTER)
    one.answer(token(2), "2")
    one.await_painted(token(3))
    if how == "reload":
        one.driver.refresh()
    else:
        old = one.driver.current_window_handle
        one.driver.switch_to.new_window("tab")
        new = one.driver.current_window_handle
        one.open()  # a browser that ends a tab may lose what the tab was still passing on to other tabs
        chromium.wait(one.driver, one.stored, "the answer in another tab")
        one.driver.switch_to.window(old)
        one.driver.close()
        one.driver.switch_to.window(new)
        one.open()
    one.await_screen("start")
    assert one.text("begin") == "Go on", (one.text("kept"), one.driver.execute_script("return {...localStorage}"))
    assert "1 of 2 are done" in one.text("begun")
    one.press(ENTER)
    one.answer(token(3), "3")
    one.await_screen("done")
    assert said(one.stored()) == [(1, None, None, 1), (2, None, None, 2), (3, None, None, 3)]


def test_two_tabs_lose_nothing(rater) -> None:
    """A tab takes over what the other one answered."""
    one = rater(sheet_of(QUALITY, QUALITY, QUALITY))
    first = one.driver.current_window_handle
    one.driver.switch_to.new_window("tab")
    one.open()
    one.press(ENTER)
    one.answer(token(1), "1")
    one.await_painted(token(2))
    one.driver.switch_to.window(first)
    chromium.wait(one.driver, lambda: "1 of 3 are done" in one.text("begun"), "the other tab's answer")
    one.press(ENTER)
    one.answer(token(2), "2")
    one.await_painted(token(3))
    assert said(one.stored()) == [(1, None, None, 1), (2, None, None, 2)]


def test_an_answer_too_fast_comes_back_once_and_later(rater) -> None:
    """Both answers are kept. The second one stands, or does not count either: then the item is left."""
    one = rater(sheet_of(QUALITY, QUALITY, QUALITY))
    one.answer_too_fast(token(1), "5")
    assert "too quick" in one.text("message")
    assert "comes back later" in one.text("message")
    one.look(token(2))
    one.answer_too_fast(token(3), "5", start="2")
    one.answer(token(1), "1")  # after every other item
    one.await_painted(token(3))
    one.driver.refresh()
    one.await_screen("start")
    one.answer_too_fast(token(3), "4")
    one.await_screen("done")
    answers = one.stored()
    assert said(answers) == [(n, None, None, grade) for n, grade in ((1, 5), (2, 2), (3, 5), (1, 1), (3, 4))]
    assert [each.milliseconds < MINIMUM_MILLISECONDS for each in answers] == [True, False, True, False, True]


def test_keys_before_the_pictures_are_painted_answer_nothing(rater) -> None:
    """A key that comes before the picture, or that is held down, is no answer to it."""
    one = rater(sheet_of(QUALITY, QUALITY))
    script = """
    const press = (repeat) => document.dispatchEvent(new KeyboardEvent("keydown", { key: "1", bubbles: true, repeat }));
    if (arguments[0]) press(true); else { document.getElementById("begin").click(); press(false); }
    """
    one.driver.execute_script(script, False)
    one.look(token(1))
    one.driver.execute_script(script, True)
    assert one.stored() == []
    one.press("1")
    one.await_painted(token(2))
    assert said(one.stored()) == [(1, None, None, 1)]


def test_an_unfit_display_shows_no_picture_until_it_is_mended(rater) -> None:
    """It says what is wrong and how to mend it, takes no answer, and goes on by itself, before and amid the items."""
    one = rater(sheet_of(*[QUALITY] * (len(UNFIT_DISPLAYS) + 1)))
    for number, (display, reason) in enumerate(UNFIT_DISPLAYS, start=1):
        one.resize(*display)
        one.open()
        one.await_screen("unfit")
        assert reason in one.text("unfit-text")
        assert "Ctrl and 0" in one.text("unfit-text")
        one.resize(1366, 900)
        one.await_screen("start")
        one.press(ENTER)
        one.look(token(number))
        one.resize(*display)
        one.await_screen("unfit")
        one.press("1")
        assert one.element("stage").get_attribute("data-painted") is None
        one.resize(1366, 900)
        one.await_screen("item")
        one.answer(token(number), "2")
        one.await_painted(token(number + 1))
        assert said(one.stored()) == [(each, None, None, 2) for each in range(1, number + 1)]


def test_the_ratio_of_pixels_is_recorded(rater) -> None:
    """A display with finer pixels is fit, and each answer says what it was."""
    one = rater(sheet_of(QUALITY, QUALITY))
    one.press(ENTER)
    one.answer(token(1), "1")
    one.resize(1366, 900, 1.5)
    one.answer(token(2), "1")
    one.await_screen("done")
    assert [each.device_pixel_ratio for each in one.stored()] == [1.0, 1.5]


def test_hostile_names_are_shown_and_do_nothing(rater) -> None:
    """A class, a title and a question that look like markup are there to be read."""
    text = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    one = rater(sheet_of(VALID, contest=text, classes=[text, "cat"], wording={VALID: text}))
    assert one.driver.find_element(By.TAG_NAME, "h1").text == text
    one.press(ENTER)
    one.look(token(1))
    assert one.driver.find_element(By.CSS_SELECTOR, "[data-kind=class_index]").text == f"1\n{text}"
    assert one.text("question-valid") == text
    one.press("1", "y")
    one.await_screen("done")
    one.element("correct").click()
    one.await_screen("item")
    assert text in one.text("message")
    with pytest.raises(NoAlertPresentException):
        _ = one.driver.switch_to.alert
    assert one.console() == []


def test_the_policy_lets_nothing_else_run(rater) -> None:
    """A script, a style or a picture from elsewhere that got into the page is blocked by the browser."""
    one = rater(sheet_of(VALID))
    blocked = one.driver.execute_async_script("""
    const done = arguments[0], blocked = new Set();
    document.addEventListener("securitypolicyviolation", (event) => {
      blocked.add(event.effectiveDirective);
      if (blocked.size === 3) done([...blocked].sort());
    });
    const script = document.createElement("script");
    script.textContent = "window.injected = true";
    const style = document.createElement("style");
    style.textContent = "body { display: none }";
    const image = new Image();
    image.src = "http://127.0.0.1:9/x.png";
    document.body.append(script, style, image);
    """)
    assert blocked == ["img-src", "script-src-elem", "style-src-elem"]
    assert one.driver.execute_script("return window.injected") is None


def test_the_last_answers_can_be_corrected(rater) -> None:
    """Back one item or more, shown what was answered; the correction is a later answer to the same item."""
    one = rater(sheet_of(VALID, QUALITY, QUALITY))
    one.press(ENTER)
    assert not one.element("back").is_enabled()
    one.answer(token(1), "1", "y")
    one.answer(token(2), "2")
    one.await_painted(token(3))
    one.press(BACK)
    one.await_painted(token(2))
    assert one.text("message") == "Your answer was: annoying. Answer again, or leave it as it is."
    one.press(LEFT)
    one.await_painted(token(1))
    assert one.text("message").startswith("Your answer was: airplane, a proper picture.")
    one.press(LEFT)  # there is none before it
    one.answer(token(1), "n", "4")
    one.await_painted(token(3))
    one.element("back").click()
    one.await_painted(token(1))
    one.press(RIGHT)
    one.answer(token(3), "5")
    one.await_screen("done")
    one.press(BACK)
    one.answer(token(3), "4")
    one.await_screen("done")
    expected = [(1, 0, True, None), (2, None, None, 2), (1, 3, False, None), (3, None, None, 5), (3, None, None, 4)]
    assert said(one.stored()) == expected


def test_a_saved_file_goes_on_in_a_fresh_browser(rater) -> None:
    """Another computer with the page and the file goes on where the file ends."""
    sheet = sheet_of(QUALITY, QUALITY, QUALITY)
    one = rater(sheet)
    one.press(ENTER)
    one.answer(token(1), "1")
    one.await_painted(token(2))
    one.driver.find_element(By.CSS_SELECTOR, "footer [data-save=json]").click()
    assert said(one.saved().answers) == [(1, None, None, 1)]
    other = rater(sheet)
    assert other.text("begin") == "Begin"
    other.element("load").send_keys(str(one.downloads / "answers-rater-7.json"))
    chromium.wait(other.driver, lambda: other.text("begin") == "Go on", "the file is loaded")
    other.press(ENTER)
    other.answer(token(2), "2")
    other.await_painted(token(3))
    assert said(other.stored()) == [(1, None, None, 1), (2, None, None, 2)]


def test_a_file_of_something_else_is_not_loaded(rater, tmp_path) -> None:
    """The page says why, and keeps what it has."""
    one = rater(sheet_of(QUALITY, QUALITY))
    one.press(ENTER)
    one.answer(token(1), "1")
    one.await_painted(token(2))
    values = {"plan": one.sheet.plan, "rater": one.sheet.rater, "answers": []}
    for number, (changes, reason) in enumerate(FILES_OF_SOMETHING_ELSE):
        place = tmp_path / f"other-{number}.json"
        text = "{" if changes is None else AnswerFile.model_validate(values | changes).model_dump_json()
        place.write_text(text, "utf-8")
        one.element("load").send_keys(str(place))
        refusal = f"{place.name} was not loaded"
        chromium.wait(one.driver, lambda: refusal in one.text("kept"), refusal)  # noqa: B023  used at once
        assert reason in one.text("kept")
        assert said(one.stored()) == [(1, None, None, 1)]


def test_a_browser_without_storage_is_told_so_before_the_start(rater) -> None:
    """Grading works all the same, to the saved file. As `data:`, the page has no storage either."""
    one = rater(sheet_of(QUALITY, QUALITY))
    one.driver.get(f"data:text/html;base64,{base64.b64encode(one.page.read_bytes()).decode()}")
    one.await_screen("start")
    assert "This browser keeps nothing" in one.text("not-kept")
    one.press(ENTER)
    one.answer(token(1), "1")
    one.answer(token(2), "2")
    one.await_screen("done")
    one.press(ENTER)
    assert said(one.saved().answers) == [(1, None, None, 1), (2, None, None, 2)]


def test_a_browser_with_storage_says_nothing_of_it(rater) -> None:
    """The warning of the test above is not always there."""
    one = rater(sheet_of(QUALITY))
    one.await_screen("start")
    assert not one.element("not-kept").is_displayed()


def test_kept_answers_that_cannot_be_read_are_put_aside(rater) -> None:
    """The page says so, begins anew, and the text is still there."""
    one = rater(sheet_of(QUALITY))
    key = f"sparring-grading:{one.sheet.plan}:{one.sheet.rater}"
    one.driver.execute_script("localStorage.setItem(arguments[0], '{broken')", key)
    one.open()
    assert "cannot be used" in one.text("kept")
    assert one.text("begin") == "Begin"
    assert one.driver.execute_script("return localStorage.getItem(arguments[0])", f"{key}:unreadable") == "{broken"


def test_a_break_is_proposed_after_a_session(rater) -> None:
    """Practice is not part of a session, and after the last item there is no break."""
    one = rater(sheet_of(*[QUALITY] * 5, practice=1, session_size=2))
    one.press(ENTER)
    one.answer(token(1), "1")
    one.await_screen("counting")
    one.press(ENTER)
    one.answer(token(2), "1")
    assert one.text("progress-text") == "2 of 4, about 1 minute left"
    one.answer(token(3), "1")
    one.await_screen("break")
    assert "2 of 4 are done" in one.text("break-text")
    one.press(ENTER)
    one.answer(token(4), "1")
    one.answer(token(5), "1")
    one.await_screen("done")


@pytest.mark.parametrize("size", [10, 16, 32])
def test_any_font_size_can_be_read(rater, size) -> None:
    """In the narrowest window that is fit, nothing is cut off, and the pictures keep their size."""
    one = rater(sheet_of(VALID, QUALITY))
    one.driver.execute_cdp_cmd("Page.setFontSizes", {"fontSizes": {"standard": size}})
    overflow = "const page = document.documentElement; return page.scrollWidth - page.clientWidth"
    gutter = one.driver.execute_script("return window.innerWidth - document.documentElement.clientWidth")
    one.resize(536 + gutter, 700)
    one.await_screen("start")
    assert one.element("begin").value_of_css_property("font-size") == f"{size}px"
    assert one.driver.execute_script(overflow) <= 0
    one.press(ENTER)
    for number, keys in enumerate((["1", "y"], ["1"]), start=1):
        one.await_painted(token(number))
        assert one.driver.execute_script(overflow) <= 0
        assert one.element("picture").size == {"width": 256, "height": 256}
        one.answer(token(number), *keys)
    one.await_screen("done")


def test_what_a_screen_reader_says(rater) -> None:
    """Buttons have names, the pictures too, and the focus goes to the question of each item."""
    one = rater(sheet_of(VALID, QUALITY))
    one.press(ENTER)
    for number, names in ((1, [*CLASSES, "None of them", "Yes", "No"]), (2, GRADES)):
        one.await_painted(token(number))
        buttons = [each for each in one.driver.find_elements(By.CSS_SELECTOR, "[data-kind]") if each.is_displayed()]
        assert [each.accessible_name for each in buttons] == names
        assert one.driver.switch_to.active_element.get_attribute("id") == f"question-{one.sheet.items[number - 1].task}"
        assert one.element("picture").accessible_name == "Picture to judge"
        one.answer(token(number), *(["1", "y"] if number == 1 else ["1"]))


def test_without_scripts_the_page_says_what_it_needs(rater) -> None:
    """It says so, and shows no button that does nothing."""
    one = rater(sheet_of(VALID))
    chromium.switch_scripts_off(one.driver)
    one.open()
    assert "This page needs JavaScript" in one.driver.find_element(By.TAG_NAME, "body").text
    assert not any(button.is_displayed() for button in one.driver.find_elements(By.TAG_NAME, "button"))
