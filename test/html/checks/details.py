"""Around a function and of a frame: sandwich, details, what colours mean."""
import itertools

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from checks.looks import (
    beside_root, chosen_range, fields, frame_and_meaning, graph_title, page_data, stacks_of, whole_graph)
from checks.page import VIEWS, check_quiet
from checks.words import expect, say_bytes, summed


def check_sandwich(page):
    """Callers above and callees below a function, from each place where it can be asked for; a stack counts once, also
    where it calls itself."""
    stacks, strings = stacks_of(page), page_data(page)["strings"]
    recursive = sorted({name for stack, _ in stacks for name in stack if stack.count(name) > 1 and stack[0] != name})
    expect("a function that calls itself", bool(recursive), True)
    function = max(recursive, key=lambda name: sum(live for stack, live in stacks if name in stack))
    mine = [(stack, live) for stack, live in stacks if function in stack]
    callers = summed((([*stack, None][len(stack) - stack[::-1].index(function)]), live) for stack, live in mine)
    callees = summed((stack[stack.index(function) - 1], live) for stack, live in mine if stack[0] != function)
    page.names("full")
    page.tab("functions")
    name = strings[function].split("(")[0]
    page.press(strings[function], "#function-table .caption input")
    page.wait(lambda: page.run("return [...document.querySelectorAll('#function-table td.name')].map(e => e.querySelector('button').textContent)") == [name])
    page.click("#function-table td.name .one-line .fold")
    page.wait(lambda: page.shown("#sandwich"))
    expect("the function between them", page.text("#sandwich-middle .whole-name"), strings[function])
    total, whole = sum(live for _, live in mine), sum(live for _, live in stacks)
    expect("its figures", f"{say_bytes(total)} ({100 * total / whole:.1f} %) passed through it, "
           f"{say_bytes(total - sum(callees.values()))} (" in page.text("#sandwich-middle"), True)
    for canvas, inner, wanted in (("#callers-canvas", Keys.ARROW_UP, callers), ("#callees-canvas", Keys.ARROW_DOWN, callees)):
        got = beside_root(page, canvas, inner)
        wanted = {key: value for key, value in wanted.items() if key is not None}
        expect(f"frames of {canvas}", sorted(said.rsplit(": ", 1)[1].split(",")[0] for said in got), sorted(say_bytes(live) for live in wanted.values()))
        expect(f"names of {canvas}", sorted(said.rsplit(": ", 1)[0] for said in got), sorted(strings[key] for key in wanted))
    # The root of the callers is at the bottom.
    page.press(Keys.HOME, "#callers-canvas")
    page.run("document.getElementById('sandwich-middle').scrollIntoView({block: 'center'})")
    box = page.one("#callers-canvas").size
    expect("the function itself", page.tip(page.one("#callers-canvas"), 20, box["height"] - 9).startswith(strings[function] + ": "), True)
    page.picture("sandwich")
    address = page.run("return location.href")
    expect("in the address", (f"function={function}" in address, "direction=around" in address), (True, True))
    page.press(Keys.ENTER, "#callees-canvas")
    expect("zoomed in", (page.one("#flame-back").is_enabled(), "&callees=" in page.run("return location.hash")), (True, True))
    page.back()
    page.wait(lambda: not page.one("#flame-back").is_enabled())
    page.back()
    page.wait(lambda: page.shown("#functions"))
    page.forward()
    page.forward()
    page.wait(lambda: page.shown("#sandwich") and page.one("#flame-back").is_enabled())
    page.press(Keys.BACKSPACE, "#callees-canvas")
    expect("Backspace goes back", page.one("#flame-back").is_enabled(), False)
    for key in (Keys.HOME, Keys.ARROW_UP, "p"):
        page.press(key, "#callers-canvas")
    caller = page.text("#pin .whole-name")
    page.run("[...document.querySelectorAll('#pin button')].find(e => e.textContent === 'Sandwich').click()")
    expect("of a caller, by its details", page.text("#sandwich-middle .whole-name"), caller)
    for key in (Keys.HOME, Keys.ARROW_DOWN, "s"):
        page.press(key, "#callees-canvas")
    expect("of a callee, by the key", page.text("#sandwich-middle .whole-name") != caller, True)
    whole_graph(page)
    # One of the two is of unknown stacks, which are no function.
    for key in (Keys.HOME, Keys.ARROW_DOWN, "s", Keys.ARROW_RIGHT, "s"):
        if page.shown("#canvas"):
            page.press(key, "#canvas")
    expect("from the whole graph", (page.shown("#sandwich"), page.shown("#canvas")), (True, False))
    page.driver.get(address)
    page.drawn()
    page.wait(lambda: page.text("#sandwich-middle .whole-name") == strings[function])
    fields(page, 0, page_data(page)["buckets"][3])
    expect("before it allocated", "No stack that is shown" in page.text("#sandwich-middle") or "0 B passed" in page.text("#sandwich-middle"), True)
    page.press("r")
    page.run("document.querySelectorAll('.caption input').forEach(e => { e.value = ''; e.oninput(); })")
    whole_graph(page)


def check_sparkline(page):
    """Live bytes over time of what the details are about, here all stacks that are known, and the window that is shown."""
    data = page_data(page)
    edges, live = data["buckets"], [0] * len(data["buckets"])
    for site in data["sites"]:
        for b, came, went in zip(site["b"], site["ab"], site["fb"]) if site["node"] else ():
            live[b + 1] += came - went
    live = list(itertools.accumulate(live))
    wanted = [(260 * at / edges[-1], 43 - 41 * value / max(live)) for at, value in zip(edges, live)]
    points = [tuple(map(float, point.split(","))) for point in page.one("#pin .spark-line").get_attribute("points").split(" ")]
    expect("points of the line", max(abs(a - b) for got, point in zip(points, wanted) for a, b in zip(got, point)) < 0.06, True)
    expect("how many", len(points), len(edges))
    said = page.one("#pin .spark").get_attribute("aria-label")
    expect("in words", said.split("; ")[0], f"live bytes over time: 0 B at first, at most {say_bytes(max(live))}, {say_bytes(live[-1])} at the end")
    window = page.all("#pin .spark-window")
    begin, end = (min(edges, key=lambda edge, v=float(at): abs(edge - v)) for at in chosen_range(page))
    expect("the window", bool(window), (begin, end) != (edges[0], edges[-1]))
    if window:
        left, width = (float(window[0].get_attribute(name)) for name in ("x", "width"))
        expect("from and to", (abs(left - 260 * begin / edges[-1]) < 0.06, abs(left + width - 260 * end / edges[-1]) < 0.06), (True, True))


def check_details(page):
    """Details of a frame, by mouse and key: all measures, and ways on; and what colours mean."""
    page.tab("flame")
    canvas = page.one("#canvas")
    page.run("arguments[0].scrollIntoView()", canvas)
    for by in ("mouse", "key"):
        if by == "mouse":
            for share in (0.25, 0.75):
                # What is unknown has no details.
                if not page.shown("#pin"):
                    page.point(canvas, canvas.size["width"] * share, 28)
                    ActionChains(page.driver, duration=0).context_click().perform()
        else:
            for key in (Keys.HOME, Keys.ARROW_DOWN, Keys.ARROW_RIGHT):
                page.press(key, "#canvas")
            page.press("p", "#canvas")
            if not page.shown("#pin"):
                page.press(Keys.ARROW_LEFT, "#canvas")
                page.press("p", "#canvas")
        said = page.text("#pin")
        expect(f"measures, by {by}", [words for words in ("live at the end", "at the peak", "growth", "bytes allocated", "temporary") if words not in said], [])
        expect("half of all is known", "50.0 %" in said, True)
        check_sparkline(page)
        page.press(Keys.ESCAPE, "#pin button")
        expect("closed", (page.shown("#pin"), page.run("return document.activeElement.id")), (False, "canvas"))
    fields(page, page_data(page)["buckets"][4], page_data(page)["buckets"][30])
    for key in (Keys.HOME, Keys.ARROW_DOWN, "p", Keys.ARROW_RIGHT, "p"):
        if not page.shown("#pin"):
            page.press(key, "#canvas")
    check_sparkline(page)
    page.press(Keys.ESCAPE, "#pin button")
    page.press("r")
    pictures = set()
    for colour in ("module", "growth", "kept", "name"):
        page.choose("#colour", colour)
        pictures.add(page.run("return document.getElementById('canvas').toDataURL()"))
        expect(f"what colours by {colour} mean", len(page.all("#flame-legend li")) > 1, True)
        expect("in the address", f"colour={colour}" in page.run("return location.hash"), colour != "name")
    expect("each looks different", len(pictures), 4)


def check_stayed(page):
    """The key g and its button: the measure of what stayed, in a view that has it, and back."""
    def shown():
        return (page.one("#metric").get_property("value"), page.one("#stayed").get_attribute("aria-pressed"),
                next(tab for tab in VIEWS if page.shown(f"#{tab}")))
    page.tab("overview")
    page.choose("#metric", "allocated")
    page.press("g")
    expect("stacks, as the overview has no measure", shown(), ("survived", "true", "sites"))
    page.press("g")
    expect("the measure of before", shown(), ("allocated", "false", "sites"))
    page.tab("flame")
    page.click("#stayed")
    expect("the graph stays", shown(), ("survived", "true", "flame"))
    page.back()
    page.wait(lambda: shown() == ("allocated", "false", "flame"))
    page.click("#compare")
    page.press("g")
    expect("in two windows", (shown(), "live at the end of the capture" in graph_title(page)), (("survived", "true", "flame"), True))
    page.press("r")
    page.choose("#metric", "live")
    expect("by the list", shown(), ("live", "false", "flame"))


def check_aged(page):
    """Colours by growth and by age mean what the legend says, of the whole and of a window."""
    check_stayed(page)
    data = page_data(page)
    edges, known = data["buckets"], [site for site in data["sites"] if site["node"]]
    page.tab("flame")
    page.run("document.querySelector('input[value=up]').click()")
    for first in (0, 6):
        fields(page, edges[first], edges[-1])
        # The largest of the stacks that are known.
        grown = [sum(came - went for b, came, went in zip(site["b"], site["ab"], site["fb"]) if b >= first) for site in data["sites"]]
        share = grown[1] / sum(grown)
        left = [(size, edges[-1] - (edges[step] + edges[step + 1]) / 2) for step, size in zip(known[0]["s"], known[0]["sb"]) if step >= first]
        age = sum(size * age for size, age in left) / sum(size for size, _ in left) / edges[-1]
        for colour, part, least in (("growth", share, (0.5, 0.1, 0.01, 0)), ("age", age, (0.75, 0.5, 0.25, 0.1, 0))):
            page.choose("#colour", colour)
            step = next(i for i, edge in enumerate(least) if part >= edge)
            got, wanted = frame_and_meaning(page, step)
            expect(f"{colour} from {first}, {part:.2f}: {got} as {wanted}", max(abs(a - b) for a, b in zip(got, wanted)) <= 1, True)
            expect("another colour than the rest", len({e.value_of_css_property("background-color") for e in page.all("#flame-legend .swatch:not(.hatched)")}) >= len(least), True)
            expect("in words", ("10 % or more" if colour == "growth" else "30m00s or older") in page.text("#flame-legend"), True)
            page.picture(f"by-{colour}-{first}")
    address = page.run("return location.href")
    page.choose("#colour", "name")
    page.back()
    expect("the address knows", (page.one("#colour").get_property("value"), page.run("return location.href")), ("age", address))
    page.tab("functions")
    page.click("#function-table .fold")
    page.press(Keys.HOME, "#callees-canvas")
    expect("around a function, too", page.shown("#callees-canvas"), True)
    page.resize(390, 844)
    page.wait(lambda: page.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth"))
    page.resize()
    check_quiet(page)
