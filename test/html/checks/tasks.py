"""The tasks of docs/tasks.md."""
import re

from checks.looks import chosen_range, page_data, rows_named
from checks.page import check_quiet
from checks.persons import ByKeyboard, ByMouse, ByTouch
from checks.words import expect, say_bytes

# What each task of docs/tasks.md takes at most: keys, clicks, taps.
TASKS = {"since when": (6, 1, 1), "whole": (1, 1, 1), "who calls it": (9, 1, 1), "between marks": (3, 3, 3),
         "cache or leak": (2, 2, 2), "which is the cache": (2, 1, 1), "as Markdown": (1, 1, 1), "as a link": (1, 1, 1)}


def since_when(page, person):
    person.use(page.one("#verdict-when"))
    page.wait(lambda: "all figures are of this window" in page.text("#range-words"))
    data = page_data(page)
    finding = data["verdict"]
    expect("since when", min(data["buckets"], key=lambda edge: abs(edge - finding["from_seconds"])), min(
        data["buckets"], key=lambda edge: abs(edge - float(chosen_range(page)[0]))))


def whole_again(page, person):
    person.whole()
    page.wait(lambda: not page.one("#all-time").is_enabled())


def who_calls(page, person):
    person.use(next(one for one in page.all("#strip-legend button") if one.text == "session_new"))
    page.wait(lambda: page.shown("#functions"))
    expect("whose callers", page.text("#callers h2"), "session_new")
    expect("who calls it", sorted(row[0] for row in rows_named(page, "#called-by", [])), ["handle_api", "handle_login"])
    expect("what it calls", rows_named(page, "#calls", []), [])


def between_marks(page, person, born):
    """born: what limpet report says was allocated between the marks and is live at the end."""
    person.from_mark("before")
    marks = {mark["name"]: mark["time_s"] for mark in page_data(page)["marks"]}
    page.wait(lambda: all(abs(float(shown) - marks[name]) < 0.6 for shown, name in zip(chosen_range(page), ("before", "after"))))
    person.stayed()
    expect("the measure", (page.one("#metric").get_property("value"), page.one("#stayed").get_attribute("aria-pressed")), ("survived", "true"))
    person.show("sites")
    page.wait(lambda: page.shown("#sites"))
    title = [head.text.split(" ")[0] for head in page.all("#sites th")].index("Survived")
    # Stacks that differ in lines alone are one row.
    stacks = {}
    for site in born["sites"]:
        functions = tuple(frame["function"] for frame in site["stack"])
        stacks[functions] = stacks.get(functions, 0) + site["live_bytes"]
    expect("what is left of it", sorted(row for row in map(tuple, rows_named(page, "#sites", [title])) if row[1] != "0 B"),
           sorted((functions[0], say_bytes(live)) for functions, live in stacks.items() if live))
    expect("what stands first", rows_named(page, "#sites", [])[0], ["session_new"])


def cache_or_leak(page, person):
    person.choose("#layers", "generation")
    page.wait(lambda: "still live at the end" in page.text("#strip-legend"))
    expect("how to read it", "a leak is a ramp" in page.text("#layers-words"), True)


def which_is_the_cache(page, person):
    person.show("lifetimes")
    # They are read when they are looked at.
    page.wait(lambda: page.shown("#lifetimes") and page.all("#lifetimes-by-stack tbody tr"))
    freed = dict(rows_named(page, "#lifetimes-by-stack", [0]))
    expect("blocks that were freed", (freed["session_new"], int(freed["picture_cached"].replace(",", "")) > 0), ("0", True))


def as_markdown(page, person):
    if isinstance(person, ByKeyboard):
        person.press_key("c")
    else:
        person.use(page.one("#verdict-copy"))
    page.wait(lambda: page.text("#verdict-copy") == "Copied")
    copied = page.run("return window.copied")
    expect("what was copied", [words in copied for words in (page_data(page)["verdict"]["sentences"][0].split(",")[0], "session", "shop.c:")], [True] * 3)
    expect("and the window that is shown", bool(re.search(r"^From [\d.]+ s to [\d.]+ s: .*live at the end of the capture", copied, re.MULTILINE)), True)


def as_link(page, person):
    if isinstance(person, ByKeyboard):
        person.press_key("l")
    else:
        person.use(page.one("#copy-link"))
    page.wait(lambda: page.text("#copy-link").startswith("Copied: for whoever has the file"))
    link, chosen = page.run("return window.copied"), chosen_range(page)
    opened(page, link)
    expect("what a colleague sees", (page.one("#metric").get_property("value"), chosen_range(page), page.shown("#lifetimes")),
           ("survived", chosen, True))


def opened(page, address):
    page.open(address)
    page.run("Object.defineProperty(navigator, 'clipboard', {configurable: true, value: {writeText: async text => { window.copied = text; }}})")


def check_tasks(page, born):
    """What somebody asks of a page, one question after the other: by keys, by mouse, by a finger on a telephone."""
    address = page.driver.current_url.split("#", maxsplit=1)[0]
    for means, kind in enumerate((ByKeyboard, ByMouse, ByTouch)):
        if kind is ByTouch:
            page.resize(390, 844)
            page.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
        opened(page, address)
        expect("what is beside the window", page.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth"), True)
        person = kind(page)
        expect("who holds the memory", "session_new" in page.text("#verdict-text"), True)
        for name, task in (("since when", since_when), ("whole", whole_again), ("who calls it", who_calls),
                           ("between marks", lambda *who: between_marks(*who, born)), ("cache or leak", cache_or_leak),
                           ("which is the cache", which_is_the_cache), ("as Markdown", as_markdown), ("as a link", as_link)):
            task(page, person)
            expect("width of the timeline", *page.run("return ['strip-canvas', 'strip'].map(id => document.getElementById(id).clientWidth)"))
            taken = person.taken()
            expect(f"steps of {kind.__name__}, {name}: {taken}, not more than {TASKS[name][means]}", taken <= TASKS[name][means], True)
            page.picture(f"{kind.__name__}-{name.replace(' ', '-')}")
        check_quiet(page)
    page.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
    page.resize()
