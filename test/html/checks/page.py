"""A page, as a person uses it."""
import itertools
import pathlib
import sys
import traceback

from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from checks.browser import PATIENCE_SECONDS, ask, click, press
from checks.words import expect


class Page:
    def __init__(self, driver, path, pictures, drawn=True):
        """In the tab of the page before it, of which nothing is left: no history, no words in the console."""
        self.driver = driver
        self.pictures = pictures
        driver.get("about:blank")
        driver.execute_cdp_cmd("Page.resetNavigationHistory", {})
        driver.get_log("browser")
        self.window = self.size()
        driver.get(pathlib.Path(path).resolve().as_uri())
        if drawn:
            self.drawn()

    def open(self, address):
        """Anew, not from the page to a place in it."""
        self.driver.get("about:blank")
        self.driver.get(address)
        self.drawn()

    def drawn(self):
        self.wait(lambda: self.run("return document.documentElement.dataset.ready") == "yes")

    def wait(self, condition):
        try:
            WebDriverWait(self.driver, PATIENCE_SECONDS, poll_frequency=0.02).until(lambda _: condition())
        except TimeoutException:
            callers = [f"{caller.name}, line {caller.lineno}" for caller in traceback.extract_stack()[1:-1]]
            sys.exit(f"drive: waited {PATIENCE_SECONDS} s in vain: {'; '.join(callers)}")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return ask(self.driver, "return words(of(arguments[0]))", selector)

    def texts(self, selector):
        return ask(self.driver, "return [...document.querySelectorAll(arguments[0])].map(words)", selector)

    def shown(self, selector):
        return ask(self.driver, "return shown(of(arguments[0]))", selector)

    def click(self, selector, at=0):
        click(self.driver, selector, at)

    def choose(self, selector, value):
        """In a list, which the system draws: as it tells the page of a choice."""
        ask(self.driver, """
            const list = of(arguments[0]), option = [...list.options].find(one => one.value === arguments[1]);
            if (!shown(list) || list.disabled || !option || option.disabled) throw new Error(`${arguments[0]} has no ${arguments[1]}`);
            list.focus();
            if (option.selected) return;
            option.selected = true;
            for (const type of ['input', 'change']) list.dispatchEvent(new Event(type, {bubbles: true}))""", selector, value)

    def tab(self, name):
        """A click again for as long as it did nothing: where the window has just changed its size, a loaded browser may
        drop one, or give it to what stood there before."""
        def there():
            return self.shown(f"#{name}")

        def there_at_last():
            if not there():
                self.click(f"#tab-{name}")
            return there()
        self.wait(there_at_last)
        self.wait(lambda: self.run("return !document.getElementById(arguments[0]).innerText.includes('Reading the events…')", name))

    def resize(self, *size):
        """To (width, height), or as the window is; until the page is drawn so: a click goes to where something was when it
        was looked up. The page waits a moment for another change: a timer that begins after its own ends after it."""
        before = self.size()
        if before == list(size or self.window):
            return
        self.run("window.resized = false; addEventListener('resize', () => setTimeout(() => { window.resized = true; }, 100), {once: true})")
        if size:
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                        {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False})
        else:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.wait(lambda: self.run("return window.resized") and self.size() == list(size or self.window))
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")

    def size(self):
        return self.run("return [innerWidth, innerHeight]")

    def search_nothing(self):
        """A search is drawn a moment after it was entered, with its address."""
        self.run("const find = document.getElementById('find'); find.value = ''; find.oninput({target: find})")
        self.wait(lambda: "find=" not in self.run("return location.hash"))

    def picture(self, name):
        if self.pictures:
            self.driver.save_screenshot(f"{self.pictures}/{name}.png")

    def tiles(self):
        return dict(zip(self.texts("#tiles dt"), self.texts("#tiles dd")))

    def point(self, element, x, y, click=False):
        box = self.run("const b = arguments[0].getBoundingClientRect(); return [b.left, b.top]", element)
        actions = ActionBuilder(self.driver, duration=0)
        actions.pointer_action.move_to_location(int(box[0] + x), int(box[1] + y))
        if click:
            actions.pointer_action.click()
        actions.perform()

    def travel(self, step):
        """Takes a step in the history, and waits until page and browser have followed."""
        def history_index():
            return self.driver.execute_cdp_cmd("Page.getNavigationHistory", {})["currentIndex"]
        before = history_index()
        self.run("window.travelled = false; addEventListener('popstate', () => { window.travelled = true; }, {once: true})")
        step()
        self.wait(lambda: self.run("return window.travelled") and history_index() != before)

    def back(self):
        self.travel(self.driver.back)

    def forward(self):
        self.travel(self.driver.forward)

    def tip(self, canvas, x, y):
        """The tooltip of a point: the pointer moves a little, as a hand does, until it shows."""
        steps = itertools.cycle((0, 1))
        # What it still shows is of another point.
        self.run("document.getElementById('tip').hidden = true")

        def shown():
            self.point(canvas, x + next(steps), y)
            return self.shown("#tip")
        self.wait(shown)
        return self.text("#tip")

    def press(self, key, selector="body"):
        press(self.driver, key, selector)

    def in_menu(self, selector):
        """A control of the menu View, which is opened for it; as a person does, by its button."""
        if not self.run("return document.getElementById('view').open"):
            self.click("#view > summary")
        return self.one(selector)

    def names(self, step):
        self.in_menu("#names")
        self.choose("#names", step)


def media(page, **features):
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "media": features.get("media", ""),
        "features": [{"name": "prefers-color-scheme", "value": features.get("colours", "light")}]})


VIEWS = ("overview", "flame", "sites", "functions", "modules", "threads", "sizes", "lifetimes", "plots")


def check_quiet(page):
    errors = [entry["message"] for entry in page.driver.get_log("browser") if entry["level"] == "SEVERE"]
    expect("errors in the console", errors, [])
