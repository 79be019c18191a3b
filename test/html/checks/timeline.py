"""The timeline: a part of the time by mouse, keys and finger."""
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from checks.looks import chosen_range, computed, drag, fields, graph_title, page_data, text_of
from checks.page import check_quiet
from checks.words import expect, numbers, say_bytes


def check_range(page):
    """A part of the time, by dragging: all that is shown is of it, and the parts add up."""
    whole = page_data(page)
    edges = whole["buckets"]
    if len(edges) < 3:
        return  # a capture of one period has no parts
    page.tab("overview")
    strip = page.one("#strip")
    width = strip.size["width"]
    ActionChains(page.driver, duration=0).move_to_element_with_offset(strip, -width // 4, 0).click_and_hold() \
        .move_by_offset(width // 4, 0).release().perform()
    begin, end = (float(page.one(f"#{name}").get_property("value")) for name in ("from", "to"))
    # Not more than half was dragged over; a part is of whole steps, and those of a short capture may be wide.
    widest = max(after - before for before, after in zip(edges, edges[1:]))
    expect("a part was chosen", 0 <= begin < end and end - begin <= edges[-1] / 2 + widest + 0.002, True)
    # The fields say thousandths of a second, in which a busy program has more than one step; the address has millionths.
    said = dict(word.split("=") for word in page.run("return location.hash").split("&")[1:])
    chosen = [float(said.get(name, default)) for name, default in (("from", 0), ("to", edges[-1]))]
    expect("fields and address", [abs(a - b) < 0.002 for a, b in zip((begin, end), chosen)], [True, True])
    first, last = (min(range(len(edges)), key=lambda i, v=value: abs(edges[i] - v)) for value in chosen)
    allocations = sum(a for site in whole["sites"] for b, a in zip(site["b"], site["a"]) if first <= b < last)
    expect("allocations of that part", page.tiles()["Allocations"], f"{allocations:,}")
    growth = sum(ab - fb for site in whole["sites"] for b, ab, fb in zip(site["b"], site["ab"], site["fb"])
                 if first <= b < last)
    expect("growth of that part", page.tiles()["Growth"],
           ("+" if growth > 0 else "−" if growth < 0 else "") + say_bytes(growth))
    page.tab("threads")
    expect("threads of that part", numbers(text_of(page, "#threads", 5)), allocations)
    frees = sum(n for life in page_data(page, "lives") for b, n in zip(life["b"], life["n"]) if first <= b < last)
    page.tab("lifetimes")
    expect("lifetimes of that part", numbers(text_of(page, "#lifetimes > div:nth-of-type(2)", 0)), frees)
    page.tab("sizes")
    expect("sizes of that part", numbers(text_of(page, "#sizes > div:nth-of-type(2)", 0)), allocations)
    page.tab("overview")
    page.picture("range")
    page.press("r")
    expect("the whole again", page.one("#all-time").is_enabled(), False)


def check_drag_once(page):
    """The figures of a drag are computed once; all plots know of one over one of them."""
    for tab, selector in (("overview", "#strip"), ("plots", "#plots .u-over")):
        page.tab(tab)
        if tab == "plots" and page.run("return typeof uPlot === 'undefined'"):
            continue
        before, whole = computed(page), chosen_range(page)
        drag(page, selector)
        page.wait(lambda w=whole: chosen_range(page) != w)
        expect("times that a drag computes", computed(page) - before, 1)
        page.press("r")
        expect("the whole again", chosen_range(page), whole)


def check_strip(page):
    """The timeline: handles by mouse and keys, the window by mouse and keys, flags, and that it stays on top."""
    page.tab("overview")
    page.press("r")
    edges = page_data(page)["buckets"]
    whole = chosen_range(page)

    def steps():
        return [min(range(len(edges)), key=lambda i, v=float(at): abs(edges[i] - v)) for at in chosen_range(page)]

    def pull(selector, by):
        ActionChains(page.driver, duration=0).move_to_element(page.one(selector)).click_and_hold().move_by_offset(by, 0).release().perform()
    width = page.one("#strip").size["width"] - 28
    pull("#strip-from", width // 4)
    begin, end = map(float, chosen_range(page))
    expect("the begin is pulled", (abs(begin - edges[-1] / 4) < edges[-1] / 20, end), (True, float(whole[1])))
    pull("#strip-to", -width // 4)
    before = steps()
    pull("#strip-window", width // 8)
    after = steps()
    expect("the window is moved, as long as before", (after[0] > before[0], after[1] - after[0]), (True, before[1] - before[0]))
    for key, handle, moved in ((Keys.ARROW_LEFT, "#strip-from", (-1, 0)), (Keys.ARROW_RIGHT, "#strip-to", (0, 1)),
                               (Keys.SHIFT + Keys.ARROW_LEFT, "#strip-to", (-1, -1)), (Keys.PAGE_UP, "#strip-from", (10, 0))):
        before = steps()
        page.press(key, handle)
        expect(f"a key on {handle}", [b - a for a, b in zip(before, steps())], list(moved))
        expect("its value is said", abs(float(page.one(handle).get_attribute("aria-valuenow")) - edges[steps()[handle == "#strip-to"]]) < 0.01, True)
    expect("the address knows", all(word in page.run("return location.hash") for word in ("from=", "to=")), True)
    page.press("r")
    page.tab("sites")
    page.resize(1280, 500)
    page.run("scrollTo(0, document.documentElement.scrollHeight)")
    expect("it stays on top", page.run("return scrollY > 0 && Math.abs(document.getElementById('strip').getBoundingClientRect().top) < 1"), True)
    page.resize()
    page.tab("overview")
    crossing = page.run("""
        const strip = document.getElementById('strip'), found = [];
        for (let width = 240; width < 900; width += 1.37) {
            strip.style.width = `${width}px`;
            document.getElementById('theme').click();
            const boxes = [...document.querySelectorAll('.flag')].filter(e => !e.hidden).map(e => e.getBoundingClientRect()).sort((a, b) => a.left - b.left);
            if (!boxes.length || boxes.some((box, i) => i ? box.left < boxes[i - 1].right : box.left < strip.getBoundingClientRect().left)) found.push(width);
        }
        strip.style.width = '';
        for (let i = 0; i < 2; i++) document.getElementById('theme').click();
        return found""")
    expect("widths where flags cross", crossing, [])
    flags = page.all(".flag")
    expect("flags of peak and marks", [flag.text.split(" ")[0] for flag in flags], ["before", "after", "peak"])
    flags[1].click()
    expect("a mark begins a window", steps(), [4, len(edges) - 1])
    flags[0].click()
    expect("that ends with the next one", steps(), [2, 4])
    flags[0].click()
    expect("a second click: to the end", steps(), [2, len(edges) - 1])
    flags[0].click()
    expect("a third one: to the next one again", steps(), [2, 4])
    page.press("r")
    for key, wanted in (("]", [2, 4]), ("]", [4, len(edges) - 1]), ("]", [4, len(edges) - 1]), ("[", [2, 4]), ("[", [0, 2]), ("[", [0, 2]),
                        ("r", [0, len(edges) - 1]), ("[", [4, len(edges) - 1])):
        page.press(key)
        expect(f"the key {key} between marks", steps(), wanted)
    expect("and no mark acts", (page.run("return window.owned === undefined"), len(page.all("#strip img"))), (True, 0))
    page.press("r")


def check_touch(page):
    """A finger along the timeline selects a part of the time."""
    page.tab("overview")
    over, whole = page.one("#strip"), chosen_range(page)
    page.run("arguments[0].scrollIntoView({block: 'center'})", over)
    left, top, width = page.run("const b = arguments[0].getBoundingClientRect(); return [b.left, b.top, b.width]", over)
    page.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    for kind, share in (("touchStart", 0.25), ("touchMove", 0.3), ("touchMove", 0.5), ("touchMove", 0.75), ("touchEnd", None)):
        points = [] if share is None else [{"x": left + share * width, "y": top + 50}]
        page.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    page.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
    page.wait(lambda: chosen_range(page) != whole)
    begin, end = map(float, chosen_range(page))
    last = float(whole[1])
    expect("a part by touch", (abs(begin - last / 4) < last / 20, abs(end - last * 3 / 4) < last / 20), (True, True))
    page.press("r")


def check_survived(page, begin, end, report):
    """A window's blocks that are live at the end of the capture, and the timeline divided by that; if known."""
    known = page_data(page)["kept"]["survivors"]
    expect("the measure", len(page.all("#metric option[value=survived]")), int(known))
    expect("the timeline's choice", page.shown("#layers"), known)
    if not known:
        return
    fields(page, begin, end)
    page.tab("flame")
    page.choose("#metric", "survived")
    page.wait(lambda: graph_title(page).startswith(f"{say_bytes(report['totals']['live_bytes'])} ("))
    page.tab("sites")
    expect("its column", "Survived" in page.text("#sites thead"), True)
    legend = page.text("#strip-legend")
    page.choose("#layers", "generation")
    expect("what is left", [word in page.text("#strip-legend") for word in ("still live at the end", "freed since")], [True, True])
    expect("how to read it", "a leak is" in page.text("#layers-words"), True)
    expect("the address knows", "layers=generation" in page.run("return location.hash"), True)
    page.picture("generations")
    page.back()
    page.wait(lambda: page.text("#strip-legend") == legend)
    page.forward()
    page.wait(lambda: "freed since" in page.text("#strip-legend"))
    page.press("r")
    check_quiet(page)
