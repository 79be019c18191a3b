"""Somebody who uses a page by one means alone, and counts what that takes."""
import sys

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from checks.page import VIEWS
from checks.words import expect


class Person:
    """Uses a page by one means alone, and counts what that takes. What is out of sight is scrolled to, which is not
    counted."""
    def __init__(self, page):
        self.page, self.steps = page, 0

    def taken(self):
        taken, self.steps = self.steps, 0
        return taken

    def in_sight(self, element):
        """Where its middle is then."""
        return self.page.run("""
            arguments[0].scrollIntoView({block: 'center', inline: 'center'});
            const box = arguments[0].getBoundingClientRect();
            return [box.left + box.width / 2, box.top + box.height / 2]""", element)

    def choose(self, selector, value):
        """The list that opens is the system's, and not drawn by the page."""
        self.in_sight(self.page.one(selector))
        self.page.choose(selector, value)
        self.steps += 2

    def show(self, view):
        self.use(self.page.one(f"#tab-{view}"))

    def whole(self):
        self.use(self.page.one("#all-time"))

    def from_mark(self, name):
        self.use(next(one for one in self.page.all(".flag") if one.text == name))

    def stayed(self):
        self.use(self.page.one("#stayed"))


class ByMouse(Person):
    def use(self, element):
        self.in_sight(element)
        ActionChains(self.page.driver, duration=0).move_to_element(element).click().perform()
        self.steps += 1


class ByTouch(Person):
    def use(self, element):
        x, y = self.in_sight(element)
        for kind, points in (("touchStart", [{"x": x, "y": y}]), ("touchEnd", [])):
            self.page.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        self.steps += 1


class ByKeyboard(Person):
    def press_key(self, *keys):
        ActionChains(self.page.driver, duration=0).send_keys(*keys).perform()
        self.steps += 1

    def reach(self, element):
        """By Tab, or back with Shift, as whoever sees the page would; from the top past the controls, by the link for
        that."""
        if self.page.run("return document.activeElement === document.body && !!arguments[0].closest('main')", element):
            self.press_key(Keys.TAB)
            self.press_key(Keys.ENTER)
        while not self.page.run("return document.activeElement === arguments[0]", element):
            before = self.page.run("""const now = document.activeElement;
                return now !== document.body && !!(now.compareDocumentPosition(arguments[0]) & Node.DOCUMENT_POSITION_PRECEDING)""", element)
            if self.steps > 100:
                sys.exit(f"drive: Tab does not reach {element.get_property('outerHTML')[:100]}")
            if before:
                ActionChains(self.page.driver, duration=0).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
                self.steps += 1
            else:
                self.press_key(Keys.TAB)
        expect("what has the focus is seen", self.page.run("""
            const box = document.activeElement.getBoundingClientRect();
            return box.width > 0 && box.top >= 0 && box.bottom <= innerHeight"""), True)

    def use(self, element):
        self.reach(element)
        self.press_key(Keys.ENTER)

    def choose(self, selector, value):
        element = self.page.one(selector)
        self.reach(element)
        for _ in element.find_elements(By.TAG_NAME, "option"):
            if element.get_property("value") == value:
                return
            self.press_key(Keys.ARROW_DOWN)

    def show(self, view):
        # In a field or a list, figures are input.
        while self.page.run("return document.activeElement.matches('input:not([type=checkbox]), select')"):
            self.press_key(Keys.TAB)
        self.press_key(str(VIEWS.index(view) + 1))

    def whole(self):
        self.press_key("r")

    def from_mark(self, name):
        """The first one, from the whole capture."""
        self.press_key("]")

    def stayed(self):
        self.press_key("g")
