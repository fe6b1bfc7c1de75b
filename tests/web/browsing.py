"""A contest served by `sparring serve`, and a person at a browser, with a function for each step of a test."""

import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests import chromium, postgresql

ROOT = Path(__file__).resolve().parents[2]
AXE = Path(os.environ.get("SPARRING_AXE") or ROOT / "build" / "axe" / "axe.min.js")
AXE_TAGS = ("wcag2a", "wcag2aa", "wcag21aa", "wcag22aa")
CODE = re.compile(r"'([\w.+-]+@[\w.-]+)'.*\n    .*\n\n    ([A-Z0-9-]{6,12})\n")
"""Matches the address and the code of a mail in the log."""
SCHEMES = ("light", "dark")
NARROW, WIDE = 320, 1280
"""Widths of windows in CSS pixels: 1280 at 400 % zoom (WCAG 1.4.10), and a desktop's."""
LOOKS = tuple(zip(SCHEMES, (NARROW, WIDE), strict=True))
"""Each scheme and each width once: colours do not depend on the width."""


def free_port() -> int:
    """Returns a port that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@dataclass
class Service:
    """A process of `sparring serve`. It writes mails to the file `log`."""

    address: str
    organizer_link: str | None
    log: Path

    def codes(self, email: str) -> list[str]:
        """Returns the codes that were mailed to an address so far, oldest first."""
        return [code for to, code in CODE.findall(self.log.read_text("utf-8")) if to == email]

    def get(self, path: str) -> tuple[int, str, str]:
        """Returns status, media type and text of an answer. Follows no redirects."""
        connection = HTTPConnection(urlsplit(self.address).netloc, timeout=chromium.PATIENCE)
        with closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.headers.get_content_type(), answer.read().decode("utf-8", "replace")


@contextmanager
def serving(folder: Path, options: Sequence[str] = ("--no-worker",)) -> Iterator[Service]:
    """Runs `sparring serve` for a contest's folder until the block ends, by default without a worker."""
    command = ["serve", str(folder), *options]
    if database := postgresql.url_of(folder):
        command += ["--database", database]
    with running(command, folder) as service:
        yield service


@contextmanager
def running(words: Sequence[str], folder: Path) -> Iterator[Service]:
    """Runs a command that serves the contest in a folder until the block ends."""
    port = free_port()
    log = folder.with_name(f"{folder.name}.log")
    command = [sys.executable, "-m", "orchestrator", *words, "--port", str(port), "--json"]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT)
    assert process.stdout is not None
    try:
        # `--json` prints one document, perhaps on several lines. Log lines go to stderr.
        said, text = None, ""
        while said is None:
            line = process.stdout.readline()
            assert line, f"sparring serve ended: {log.read_text()}"
            text += line
            try:
                said = json.loads(text)
            except json.JSONDecodeError:
                continue
        service = Service(said["site"], said["organizer_link"], log)
        _await_answer(process, port, log)
        yield service
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(chromium.PATIENCE)
        process.stdout.close()


def _await_answer(process: subprocess.Popen[str], port: int, log: Path) -> None:
    """Waits until the port is open. Raises AssertionError if the process ends first."""
    while process.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(f"sparring serve ended: {log.read_text()}")


@contextmanager
def serving_here() -> Iterator[str]:
    """Serves the contest from this process, in which Django is configured, until the block ends; gives its address."""
    from django.core.handlers.wsgi import WSGIHandler
    from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler

    server = ThreadedWSGIServer(("127.0.0.1", 0), WSGIRequestHandler)
    server.daemon_threads = True
    server.set_app(WSGIHandler())
    with answering(server) as address:
        yield address


@contextmanager
def answering(server: HTTPServer) -> Iterator[str]:
    """Runs a server in a thread until the block ends; gives its address."""
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Person:
    """A person at a browser."""

    driver: chromium.webdriver.Chrome
    service: Service
    looks: list[tuple[str, int]] = field(default_factory=lambda: list(LOOKS))
    """In the order in which the next page is looked at."""

    def go(self, path: str) -> None:
        """Opens an address of the service."""
        self.driver.get(path if "://" in path else self.service.address + path)

    @property
    def path(self) -> str:
        """The path of the page that is shown."""
        return urlsplit(self.driver.current_url).path

    def heading(self) -> str:
        """Returns the page's heading."""
        return self.driver.find_element(By.TAG_NAME, "h1").text

    def field(self, label: str) -> WebElement:
        """Returns the field with a label."""
        path = f"//label[normalize-space()='{label}']"
        return self.driver.find_element(By.ID, self.driver.find_element(By.XPATH, path).get_attribute("for"))

    def fill(self, **words: str) -> None:
        """Pastes texts into fields, given by the fields' names in the form: typing takes the browser longer."""
        for name, text in words.items():
            box = self.driver.find_element(By.NAME, name)
            box.clear()
            self.driver.execute_script("arguments[0].focus()", box)
            self.driver.execute_cdp_cmd("Input.insertText", {"text": text})

    def press(self, words: str) -> None:
        """Presses the button or follows the link with these words, and waits until another page is loaded."""
        path = f"//button[normalize-space()={words!r}] | //a[normalize-space()={words!r}]"
        self.mark_page()
        self.driver.find_element(By.XPATH, path).click()
        chromium.wait(self.driver, self.has_new_page, f"the page after {words!r}")

    def mark_page(self) -> None:
        """Marks the current page, so that `has_new_page` returns False until another page is loaded."""
        self.driver.execute_script("window.isOldPage = true")

    def has_new_page(self) -> bool:
        """Returns whether another page than the marked one is completely loaded.

        It asks the window, because asking an element of a page that is being unloaded may fail in several ways.
        """
        return self.driver.execute_script("return !window.isOldPage && document.readyState === 'complete'")

    def type_code(self, email: str, before: int) -> None:
        """Waits for the next code that is mailed to an address, which had `before` codes, and sends it."""
        codes = chromium.wait(self.driver, lambda: self.service.codes(email)[before:], f"a code for {email}")
        self.fill(code=codes[-1])
        self.press("Go on")

    def sign_up(self, name: str, email: str) -> None:
        """Signs up with a code, from the current page if it is the sign-up page."""
        if self.path != "/account/signup/":
            self.go("/account/signup/")
        self.fill(email=email, name=name)
        before = len(self.service.codes(email))
        self.press("Sign up")
        self.type_code(email, before)

    def sign_in(self, email: str) -> None:
        """Signs in with a code."""
        self.go("/account/login/")
        self.fill(email=email)
        before = len(self.service.codes(email))
        self.press("Send me a code")
        self.type_code(email, before)

    def sign_out(self) -> None:
        """Ends the session."""
        self.press("Sign out")

    def take_session(self, session: str) -> None:
        """Takes over a session, at a page of the service; without one, becomes a visitor."""
        self.driver.delete_all_cookies()
        if session:
            self.driver.add_cookie({"name": "session", "value": session, "path": "/"})

    def console(self) -> list[str]:
        """Returns the warnings and errors of the console since it was asked last.

        Chromium also says, as information, that a header of ours cleared its cache when somebody signed out.
        """
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] != "INFO"]

    def look(self, scheme: str, width: int) -> None:
        """Prefers light or dark, in a window of a width, from now on."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    @contextmanager
    def axe_along(self) -> Iterator[None]:
        """Has the tab load axe-core with each page in the block: sending it to each page takes the driver longer."""
        source = {"source": AXE.read_text("utf-8")}
        added = self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", source)
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)

    def axe_violations(self) -> list[str]:
        """Returns the violations that axe-core finds on the current page: each rule with an element that breaks it."""
        if self.driver.execute_script("return !window.axe"):
            self.driver.execute_script(AXE.read_text("utf-8"))
        found = self.driver.execute_async_script(
            "const [tags, done] = arguments;"
            "axe.run({runOnly: {type: 'tag', values: tags}, resultTypes: ['violations']})"
            ".then((found) => done(found.violations), (error) => done([{id: String(error), nodes: []}]));",
            list(AXE_TAGS),
        )
        return [f"{rule['id']}: {node.get('html', '')}" for rule in found for node in rule["nodes"] or [{}]]

    def wait_for(self, words: str) -> None:
        """Waits until the current page shows these words, without loading it again.

        The page looks itself whenever its elements change: to ask it again and again takes a processor's seconds.
        """
        self.driver.execute_async_script(
            "const [words, done] = arguments;"
            "const look = () => { if (document.body.innerText.includes(words)) { changes.disconnect(); done(); } };"
            "const changes = new MutationObserver(look);"
            "changes.observe(document.body, {childList: true, characterData: true, subtree: true});"
            "look();",
            words,
        )

    def problems(self, scheme: str, width: int) -> list[str]:
        """Returns the problems of the current page in a colour scheme and a width: axe violations and overflow."""
        self.look(scheme, width)
        found = self.axe_violations()
        if (over := self.overflow()) > 0:
            found.append(f"{over} pixels wider than the window")
        found += [f"{words!r} is outside the window" for words in self.controls_outside()]
        return [f"{self.path} {scheme} {width}: {each}" for each in found]

    def problems_in_all_looks(self) -> list[str]:
        """Returns the problems of the current page in each of its looks.

        The next page is looked at in the opposite order: it is in the last look already, and a change takes long.
        """
        found = [each for scheme, width in self.looks for each in self.problems(scheme, width)]
        self.looks.reverse()
        return found

    def whole_page(self) -> bytes:
        """Returns a PNG of the whole page, including the part below the window."""
        how = {"captureBeyondViewport": True}
        return base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", how)["data"])

    def overflow(self) -> int:
        """Returns by how many pixels the page is wider than the window."""
        return self.driver.execute_script(
            "const page = document.documentElement; return page.scrollWidth - page.clientWidth;"
        )

    def controls_outside(self) -> list[str]:
        """Returns the words of links and buttons of the service's tables that one has to scroll sideways to see."""
        return self.driver.execute_script(
            "const edge = document.documentElement.clientWidth;"
            "return [...document.querySelectorAll('.plain:not(.evidence) :is(a, button)')]"
            ".filter((each) => each.getBoundingClientRect().right > edge).map((each) => each.innerText);"
        )
