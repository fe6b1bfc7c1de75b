"""A real browser for the tests: headless Chromium with its profile in a folder."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

BROWSER = "/usr/bin/chromium"
DRIVER = "/usr/bin/chromedriver"
"""The programs of Debian's packages chromium and chromium-driver. Nothing is downloaded."""
PATIENCE = 120
"""How many seconds a test waits for something: far more than a busy machine needs."""
FILES = "file://"
"""The site of all pages that are opened from files."""

GROUP = "browser"
"""The xdist group of the tests that share one browser."""

_until_another_group = ExitStack()
_running: list[webdriver.Chrome] = []
"""The browser that runs, if one does."""
_AS_AT_THE_START: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Emulation.setScriptExecutionDisabled", {"value": False}),
    ("Emulation.setEmulatedMedia", {"features": []}),
    ("Emulation.clearDeviceMetricsOverride", {}),
    ("Page.setFontSizes", {"fontSizes": {"standard": 16}}),
    ("Page.resetNavigationHistory", {}),
)
"""Commands that undo what tests change of a tab."""


def lacking() -> str:
    """Returns what this machine lacks for the tests, "" if it has the browser and its driver."""
    absent = [place for place in (BROWSER, DRIVER) if shutil.which(place) is None]
    return f"there is no {' and no '.join(absent)}; apt-get install chromium chromium-driver" if absent else ""


@contextmanager
def browser(profile: Path, downloads: Path) -> Iterator[webdriver.Chrome]:
    """Runs a browser that has its profile in `profile` and saves files to `downloads` without a dialogue."""
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    # Root may not use Chromium's own sandbox, and containers have a small /dev/shm. The pages are ours.
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "force-color-profile=srgb"):
        options.add_argument(f"--{argument}")
    # A page that is kept for the Back button keeps its process, so that the next page needs another one.
    options.add_argument("--disable-features=BackForwardCache")
    options.add_argument(f"--user-data-dir={profile}")
    options.add_argument("--window-size=1366,900")
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("no_proxy", "*")  # the driver listens on this machine
        driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        driver.set_script_timeout(PATIENCE)
        driver.set_page_load_timeout(PATIENCE)
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def running_browser(require: Any, tmp_path_factory: pytest.TempPathFactory) -> webdriver.Chrome:
    """A browser for the tests of `GROUP`, which follow each other; each begins with `start_afresh`."""
    if reason := lacking():
        require("chromium", reason)
    if not _running:
        folder = tmp_path_factory.mktemp("browser")
        _running.append(_until_another_group.enter_context(browser(folder / "profile", folder)))
    return _running[0]


@pytest.hookimpl(trylast=True)  # after the fixtures that use it
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Ends the browser before a test of another group: a fixture of several files would keep it until the end."""
    groups = [] if nextitem is None else [each.args for each in nextitem.iter_markers("xdist_group")]
    if (GROUP,) not in groups:
        _running.clear()
        _until_another_group.close()


def start_afresh(driver: webdriver.Chrome, downloads: Path, site: str = FILES) -> None:
    """Resets a running browser: leaves one tab, forgets the site, and sets the folder for saved files.

    All pages that are opened from files are one site with one local storage. Cookies are forgotten for every site.
    The tab is the first one, because a new one takes a fifth of a second of a processor. It is empty, or at the page of
    the service for signing in: from an empty tab to a service takes another process, and as long as a new tab.
    """
    first, *others = driver.window_handles
    for each in others:
        driver.switch_to.window(each)
        driver.close()
    driver.switch_to.window(first)
    driver.get("about:blank" if site == FILES else f"{site}/account/login/")
    for command, how in _AS_AT_THE_START:
        driver.execute_cdp_cmd(command, how)
    driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": site, "storageTypes": "all"})
    driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    driver.get_log("browser")


def switch_scripts_off(driver: webdriver.Chrome) -> None:
    """Has the current tab run no script of a page, like a browser whose user switched JavaScript off.

    What the tests themselves ask a page still runs.
    """
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})


def wait(driver: webdriver.Chrome, found: Callable[[], Any], what: str) -> Any:
    """Waits until `found` returns a true value, and returns that. Fails with the message `what` after `PATIENCE`.

    It asks ten times a second: a question takes the driver and the browser several milliseconds of a processor.
    """
    return WebDriverWait(driver, PATIENCE, poll_frequency=0.1).until(lambda _: found(), what)
