"""A rater at a browser, who acts and waits as a person would."""

from pathlib import Path
from typing import Any

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from orchestrator.formats.attack_set.grading.page import grading_page
from orchestrator.formats.attack_set.grading.sheets import MINIMUM_MILLISECONDS, Answer, AnswerFile, Sheet
from tests import chromium

# Presses a key at the moment when an item's pictures are painted, which no rater could. `start` shows the item.
_QUICK_KEY = """
const [token, key, start, done] = arguments;
const stage = document.getElementById("stage");
const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
new MutationObserver((changes, observer) => {
  if (stage.dataset.painted !== token) return;
  observer.disconnect();
  press(key);
  done();
}).observe(stage, { attributes: true });
if (start === "") document.getElementById("begin").click(); else press(start);
"""


class Rater:
    """Grades the sheet in `folder`. A `token` argument is always that of the item that has to be on the screen."""

    def __init__(self, driver: chromium.webdriver.Chrome, sheet: Sheet, folder: Path) -> None:
        self.driver = driver
        self.sheet = sheet
        self.downloads = folder / "downloads"
        self.page = folder / f"{sheet.rater}.html"
        self.page.write_text(grading_page(sheet), "utf-8")

    def open(self) -> None:
        """Opens the page from its file."""
        self.driver.get(self.page.as_uri())

    def element(self, name: str) -> WebElement:
        """Returns the element with that id."""
        return self.driver.find_element(By.ID, name)

    def text(self, name: str) -> str:
        """Returns what the element with that id shows."""
        return self.element(name).text

    def await_screen(self, name: str) -> None:
        """Waits until that screen, and no other, is shown."""
        script = "return [...document.querySelectorAll('main > section:not([hidden])')].map((each) => each.id)"
        chromium.wait(self.driver, lambda: self.driver.execute_script(script) == [name], f"screen {name}")

    def press(self, *keys: str) -> None:
        """Types keys, wherever the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def await_painted(self, token: str) -> None:
        """Waits until the pictures of that item are painted."""
        stage = self.element("stage")
        chromium.wait(self.driver, lambda: stage.get_attribute("data-painted") == token, f"item {token}")

    def look(self, token: str) -> None:
        """Looks at an item for as long as an answer needs to count."""
        self.await_painted(token)
        # One millisecond more, because a browser's clocks are not exact to the millisecond.
        self.driver.execute_async_script("setTimeout(arguments[1], arguments[0])", MINIMUM_MILLISECONDS + 1)

    def answer(self, token: str, *keys: str) -> None:
        """Looks at an item and answers with keys."""
        self.look(token)
        self.press(*keys)

    def answer_too_fast(self, token: str, key: str, start: str = "") -> None:
        """Answers an item as soon as it is painted. It is shown by the key `start`, or by the page's first button."""
        self.driver.execute_async_script(_QUICK_KEY, token, key, start)

    def stored(self) -> list[Answer]:
        """Returns the answers that the browser keeps."""
        key = f"sparring-grading:{self.sheet.plan}:{self.sheet.rater}"
        text = self.driver.execute_script("return localStorage.getItem(arguments[0])", key)
        return [] if text is None else AnswerFile.model_validate_json(text).answers

    def downloaded(self, ending: str) -> str:
        """Waits for the saved file and returns its text."""
        place = self.downloads / f"answers-{self.sheet.rater}.{ending}"

        def complete() -> bool:
            return place.is_file() and place.stat().st_size > 0 and not list(self.downloads.glob("*.crdownload"))

        chromium.wait(self.driver, complete, f"the file {place.name}")
        return place.read_bytes().decode()

    def saved(self) -> AnswerFile:
        """Waits for the saved JSON and returns what is in it."""
        file = AnswerFile.model_validate_json(self.downloaded("json"))
        assert (file.plan, file.rater) == (self.sheet.plan, self.sheet.rater)
        return file

    def resize(self, width: int, height: int, ratio: float = 1) -> None:
        """Gives the page a viewport of so many CSS pixels, and so many pixels of the screen for each."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": ratio, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def console(self) -> list[dict[str, Any]]:
        """Returns the browser's errors: of scripts, and violations of the content security policy."""
        return self.driver.get_log("browser")


def said(answers: list[Answer]) -> list[tuple[object, ...]]:
    """Returns the answers without times: each item's number, class, proper, grade."""
    return [(int(each.token, 16), each.class_index, each.proper, each.grade) for each in answers]


ENTER, SPACE, TAB, BACK, LEFT, RIGHT = (
    *(Keys.ENTER, Keys.SPACE, Keys.TAB),
    *(Keys.BACKSPACE, Keys.ARROW_LEFT, Keys.ARROW_RIGHT),
)
