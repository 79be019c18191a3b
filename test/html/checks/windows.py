"""Two windows of one capture."""
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from checks.comparisons import per
from checks.looks import computed, graph_title, page_data, rows_by_state, text_of
from checks.page import check_quiet
from checks.words import STATES, expect, say_bytes, say_change


def check_windows(page, begin, middle, end, diff):
    """Two windows of a capture, one after the other, against what limpet diff says of them."""
    page.click("#compare")
    expect("two windows", [e.is_displayed() for e in page.all(".window")], [True, True])
    for fields, times in ((("base-from-field", "base-to-field"), (begin, middle)), (("from", "to"), (middle, end))):
        for name, value in reversed(list(zip(fields, times))):
            page.run("const f = document.getElementById(arguments[0]); f.value = arguments[1]; f.onchange()", name, value)
    page.choose("#metric", diff["sort"])
    tiles = page.tiles()
    expect("change", tiles["Change"], say_change(diff["change"], diff["sort"], per(diff)))
    for name, key in (("A", "old_value"), ("B", "new_value")):
        expect(name, tiles[name], say_bytes(sum(site[key] for site in diff["sites"])) + per(diff))
    changed = [site for site in diff["sites"] if site["old_value"] or site["new_value"]]
    page.tab("sites")
    wanted = sorted((site["state"], site["stack"][0].split("(")[0]) for site in changed)
    expect("states of the stacks", rows_by_state(page), wanted)
    expect("columns", page.texts("#sites th")[1:3], ["A", "B"])
    for state in STATES:
        page.choose("#state", state)
        expect(f"only what {state}", rows_by_state(page), [row for row in wanted if row[0] == state])
    page.choose("#state", "")
    page.click("#sites td.name button")
    page.wait(lambda: page.shown("#stack"))
    expect("a stack, with the figures of both", page.texts("#stack-body th"), ["A", "B", "Change"])
    page.press(Keys.ESCAPE)
    page.tab("flame")
    expect("the graph of both", (page.shown("#colour"), " from " in graph_title(page) or "the same" in graph_title(page)), (False, True))
    page.picture(f"windows-{diff['sort']}")
    page.tab("threads")
    metric = "bytes live at the end" if diff["sort"] == "live" else f"bytes {diff['sort']}"
    expect("threads of both", page.text("#threads .caption .note"), f"1 thread by {metric}")
    expect("their columns", page.texts("#threads th"), ["Thread", "Change ▾", "A", "B", "Name"])
    expect("their figures", [text_of(page, "#threads", column) for column in (1, 2, 3)], [[tiles[name]] for name in ("Change", "A", "B")])
    page.tab("lifetimes")
    expect("of which window lifetimes are", page.text("#lifetimes > .note"), "Of window B: lifetimes are not compared.")
    check_shades(page, [begin, middle, end])
    for tab in ("functions", "modules", "sizes"):
        page.tab(tab)
    page.tab("overview")
    expect("whether figures are rates", "Compared by the second" in page.text("#findings"), diff["per_second"])
    address = page.run("return location.hash")
    page.click("#compare")
    expect("one window", ([e.is_displayed() for e in page.all(".window")], "Change" in page.tiles()), ([False, True], False))
    page.back()
    page.wait(lambda: page.tiles().get("Change") == tiles["Change"])
    expect("the address", page.run("return location.hash"), address)
    page.press("r")
    expect("the whole capture", (page.shown("#all-time"), "Change" in page.tiles()), (True, False))
    check_quiet(page)


def check_shades(page, times):
    """The plots shade A and B, and what is after B not."""
    if page.run("return typeof uPlot === 'undefined'"):
        return
    page.tab("plots")
    last = page_data(page)["buckets"][-1]
    places = [(a + b) / 2 / last for a, b in zip(times, [*times[1:], last])]
    a, b, rest = page.run("""
        const canvas = document.querySelectorAll('#plots canvas')[1], over = document.querySelectorAll('#plots .u-over')[1];
        const place = over.getBoundingClientRect(), box = canvas.getBoundingClientRect(), scale = canvas.width / box.width;
        /* Near the top, where no line is, and beside the lines of the grid. */
        return arguments[0].map(at => [...canvas.getContext('2d').getImageData(Math.round((place.left - box.left + at * place.width) * scale) + 3,
            Math.round((place.top - box.top + 3) * scale), 1, 1).data])""", places)
    expect("orange, blue, nothing", (a[0] > a[2] and a[3] > 0, b[2] > b[0] and b[3] > 0, rest[3]), (True, True, 0))


def check_two_windows(page):
    """By mouse, keys, finger and flags; in steps, so that a drag is one computation."""
    page.tab("overview")
    page.press("r")
    edges = page_data(page)["buckets"]

    def steps():
        return [min(range(len(edges)), key=lambda i, v=float(page.one(f"#{name}").get_attribute("aria-valuenow")): abs(edges[i] - v))
                for name in ("base-from", "base-to", "strip-from", "strip-to")]
    page.click("#compare")
    half, last = (len(edges) - 1) // 2, len(edges) - 1
    expect("one half with the other", steps(), [0, half, half, last])
    for key, handle, moved in ((Keys.ARROW_LEFT, "#base-to", (0, -1, 0, 0)), (Keys.SHIFT + Keys.ARROW_RIGHT, "#base-from", (1, 1, 0, 0)),
                               (Keys.ARROW_LEFT, "#strip-to", (0, 0, 0, -1)), (Keys.SHIFT + Keys.ARROW_RIGHT, "#strip-from", (0, 0, 1, 1))):
        before = steps()
        page.press(key, handle)
        expect(f"a key on {handle}", [b - a for a, b in zip(before, steps())], list(moved))
    width, before, count = page.one("#strip").size["width"] - 28, steps(), computed(page)
    ActionChains(page.driver, duration=0).move_to_element(page.one("#base-to")).click_and_hold().move_by_offset(-width // 4, 0).release().perform()
    after = steps()
    expect("the end of A is pulled, and nothing else", (after[1] < before[1], after[0], after[2:]), (True, before[0], before[2:]))
    expect("computed once", computed(page) - count, 1)
    box = page.one("#base-window")
    ActionChains(page.driver, duration=0).move_to_element_with_offset(box, box.size["width"] // 4, 0).click_and_hold().move_by_offset(width // 8, 0).release().perform()
    moved = steps()
    expect("A is moved, as long as before", (moved[0] > after[0], moved[1] - moved[0], moved[2:]), (True, after[1] - after[0], after[2:]))
    flags = page.all(".flag")
    flags[1].click()
    expect("a mark begins B", steps(), [*moved[:2], 4, last])
    ActionChains(page.driver).key_down(Keys.SHIFT).click(flags[0]).key_up(Keys.SHIFT).perform()
    expect("with Shift it begins A", steps(), [2, 4, 4, last])
    ActionChains(page.driver).key_down(Keys.SHIFT).click(flags[0]).key_up(Keys.SHIFT).perform()
    expect("once more, to the end", steps(), [2, last, 4, last])
    ActionChains(page.driver).key_down(Keys.SHIFT).click(flags[0]).key_up(Keys.SHIFT).perform()
    expect("what is compared is said", "is compared with A" in page.text("#range-words"), True)
    address = page.run("return location.hash")
    page.click("#compare")
    page.back()
    page.wait(lambda: page.run("return location.hash") == address)
    expect("as it was", steps(), [2, 4, 4, last])
    page.resize(390, 844)
    page.run("scrollTo(0, 0)")
    expect("no wider than a phone", page.run("return document.documentElement.scrollWidth <= innerWidth"), True)
    below = [name for name in ("base-from-field", "base-to-field", "from", "to")
             if page.run("return document.getElementById(arguments[0]).getBoundingClientRect().bottom > innerHeight", name)]
    expect("fields that are not seen without scrolling", below, [])
    page.picture("windows-phone")
    page.resize()
    page.press("r")
