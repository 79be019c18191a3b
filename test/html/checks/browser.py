"""The browser: Chromium, or its headless shell, and how elements of its pages are asked, clicked and typed to."""
import os
import signal
import sys

from selenium import webdriver
from selenium.common.exceptions import ElementClickInterceptedException, WebDriverException
from selenium.webdriver.chromium.remote_connection import ChromiumRemoteConnection
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.common.utils import keys_to_typing
from selenium.webdriver.remote.webelement import WebElement
from urllib3.exceptions import HTTPError

# What keeps a page from hanging; on a slow machine it takes as long as it takes.
PATIENCE_SECONDS = 30 * int(os.environ.get("LIMPET_TEST_PATIENCE", 4))


def start_browser():
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1000",
                     "--force-device-scale-factor=1", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    # Without the windows around a page, which nobody sees here but which are drawn: a quarter less work.
    shell = "/usr/lib/chromium/chromium-headless-shell"
    options.binary_location = shell if os.path.exists(shell) else ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options)
    driver.set_script_timeout(PATIENCE_SECONDS)
    driver.set_page_load_timeout(PATIENCE_SECONDS)
    driver._web_element_cls = Element
    return driver


# What is asked of elements most: small scripts instead of the large ones that selenium and chromedriver send each time.
OF_ELEMENTS = """
    const of = (what, at = 0) => typeof what === 'string' ? [...document.querySelectorAll(what)].at(at) : what;
    const shown = e => {
        const box = e.getBoundingClientRect();
        return box.width > 0 && box.height > 0 && e.checkVisibility({opacityProperty: true, visibilityProperty: true});
    };
    const words = e => shown(e.closest('select') ?? e) ? e.innerText.replace(/[ \\t\u00a0]*\\n\\s*/g, '\\n').replace(/[ \\t\u00a0]+/g, ' ').trim() : '';
    const seen = e => {
        const box = shown(e) && [...e.getClientRects()].find(box => box.width > 0 && box.height > 0);
        if (!box) return null;
        const x = Math.floor((Math.max(box.left, 0) + Math.min(box.right, innerWidth)) / 2);
        const y = Math.floor((Math.max(box.top, 0) + Math.min(box.bottom, innerHeight)) / 2);
        return e.contains(document.elementFromPoint(x, y)) ? [x, y] : null;
    };
    const place = e => {
        if (!seen(e)) e.scrollIntoView({block: 'nearest', inline: 'nearest'});
        return seen(e);
    };
    const focus = e => {
        if (document.activeElement === e) return;
        document.activeElement.blur();
        e.focus();
        if (typeof e.selectionStart === 'number') e.setSelectionRange(e.value.length, e.value.length);
    };
    """


def ask(driver, script, *arguments):
    return driver.execute_script(OF_ELEMENTS + script, *arguments)


def click(driver, *which):
    """As a person does: what is clicked has to be seen, and nothing may lie over it."""
    place = ask(driver, "return place(of(...arguments))", *which)
    if place is None:
        raise ElementClickInterceptedException(f"nobody sees {which}")
    actions = ActionBuilder(driver, duration=0)
    actions.pointer_action.move_to_location(*place)
    actions.pointer_action.click()
    actions.perform()


def press(driver, keys, *which):
    """Key after key, by the element that has the focus then; Shift is held until the last one."""
    ask(driver, "focus(of(...arguments))", *which)
    actions, held = ActionBuilder(driver, duration=0), []
    for key in keys_to_typing(keys):
        actions.key_action.key_down(key)
        if key == Keys.SHIFT:
            held.append(key)
        else:
            actions.key_action.key_up(key)
    for key in held:
        actions.key_action.key_up(key)
    actions.perform()


class Element(WebElement):
    def is_displayed(self):
        return ask(self.parent, "return shown(arguments[0])", self)

    @property
    def text(self):
        return ask(self.parent, "return words(arguments[0])", self)

    def get_attribute(self, name):
        return ask(self.parent, "return arguments[0].getAttribute(arguments[1])", self, name)

    def click(self):
        click(self.parent, self)

    def send_keys(self, *keys):
        press(self.parent, keys, self)


class ServedBrowser(webdriver.Remote):
    """That of a `drive --serve`, which ends it."""
    def __init__(self, address, session):
        self.served_session = session
        super().__init__(ChromiumRemoteConnection(address, vendor_prefix="goog", browser_name="chrome"),
                         options=webdriver.ChromeOptions())
        self._web_element_cls = Element

    def start_session(self, *_):
        self.session_id, self.caps = self.served_session, {}

    def execute_cdp_cmd(self, command, arguments):
        return self.execute("executeCdpCommand", {"cmd": command, "params": arguments})["value"]

    def quit(self):
        pass


def find_browser():
    """The one that is served, if it answers: a browser that a test has ended is no failure of the next ones."""
    served = os.environ.get("LIMPET_TEST_BROWSER", "").split()
    try:
        if served:
            driver = ServedBrowser(*served)
            driver.execute_script("return 1")
            return driver
    except (WebDriverException, HTTPError) as error:
        print(f"drive: the served browser does not answer, so another one is started: {error}", file=sys.stderr)
    return start_browser()


def serve():
    # Its end by SystemExit, so that the browser ends, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    driver = None
    try:
        driver = start_browser()
        print("ready", os.getpid(), driver.command_executor._url, driver.session_id, flush=True)
        sys.stdin.readline()
    finally:
        if driver:
            driver.quit()
