"""A page of `limpet diff -o`."""
from selenium.webdriver.common.keys import Keys

from checks.looks import colour_of, rows_by_state, squeezed, text_of, whole_graph
from checks.words import METRIC_WORDS, STATES, expect, say_bytes, say_change


def per(diff):
    """What is compared by the second."""
    return "/s" if diff["per_second"] else ""


def check_comparison(page, diff):
    """What changed is what the diff's JSON says; tables, colours, words and keys say the same."""
    tiles = page.tiles()
    expect("metric", page.one("#metric").get_property("value"), diff["sort"])
    expect("change", tiles["Change"], say_change(diff["change"], diff["sort"], per(diff)))
    said = page.text("#findings")
    for side in ("old", "new"):
        losses = [loss for loss in diff[side]["losses"] if loss["reason"] != "sampled"]
        expect(f"the {side} one's losses", f"The {side} capture is " in said, bool(losses))
        for loss in losses:
            expect(f"why: {loss['words']}", loss["words"] in said, True)
    expect("the verdict", page.text("#verdict-text"), diff["verdict"])
    expect("whether figures are rates", "Compared by the second" in said, diff["per_second"])
    expect("no part of the time can be chosen", page.shown("#from"), False)
    page.picture("overview")
    # As it was counted: by the second it may round to nothing, and is in the page.
    counted = next(key for key in (diff["sort"], diff["sort"] + "_bytes", diff["sort"] + "_allocations") if key in diff["sites"][0]["old"])
    changed = [site for site in diff["sites"] if site["old"][counted] or site["new"][counted]]
    growth = diff["sort"] == "growth"
    words = {"grew": "more growth", "shrank": "less growth", "same": "the same growth"} if growth else {}
    for site in diff["sites"] if growth else []:
        site["state"] = {"faster": "grew", "slower": "shrank"}.get(site["state"], site["state"])
    expect("what can be shown alone", page.texts("#state option")[1:],
           [words.get(state, f"what {'is the same' if state == 'same' else state}") for state in STATES])
    page.names("full")
    if growth and diff["change"] < 0 < sum(site["new_value"] for site in diff["sites"]):
        total = say_bytes(sum(site["new_value"] for site in diff["sites"])) + per(diff)
        expect("what still grows has not shrunk", f"Total: grew by {total} in the new capture, {say_bytes(diff['change'])}{per(diff)} less" in said, True)
    for state in STATES[:4]:
        expect(f"sum of what {state}", tiles[words.get(state, state).capitalize()],
               say_change(sum(site["change"] for site in changed if site["state"] == state), diff["sort"], per(diff)))
    page.tab("sites")
    got, wanted = rows_by_state(page), sorted((words.get(site["state"], site["state"]), site["stack"][0].split("(")[0]) for site in changed)
    expect("states of the stacks", got, wanted)
    # By how large a change is, whatever its sign.
    sizes = sorted((abs(site["change"]) for site in changed), reverse=True)
    order = [say_change(size, diff["sort"], per(diff)).lstrip("+") for size in sizes]
    expect("the largest change first", [text.lstrip("+−") for text in text_of(page, "#sites", 0)], order)
    page.click("#sites th button")
    expect("order turned", [text.lstrip("+−") for text in text_of(page, "#sites", 0)], order[::-1])
    expect("order said", page.all("#sites th")[0].get_attribute("aria-sort"), "ascending")
    page.press(Keys.ENTER, "#sites th:nth-child(1) button")
    expect("by the keyboard", page.all("#sites th")[0].get_attribute("aria-sort"), "descending")
    page.picture("stacks")
    for state in STATES:
        page.choose("#state", state)
        expect(f"only what {state}", rows_by_state(page), [row for row in wanted if row[0] == words.get(state, state)])
    page.choose("#state", "")
    page.click("#sites td.name button")
    expect("a stack opens, with all figures of both", len(page.all("#stack-body tbody tr")), 7)
    page.picture("stack")
    page.press(Keys.ESCAPE)
    largest = max(changed, key=lambda site: abs(site["change"]))
    name, grew = largest["stack"][0].split("(")[0], largest["change"] > 0
    page.press(name, "#find")
    page.wait(lambda: all(name in row for _, row in rows_by_state(page)))
    page.search_nothing()
    page.tab("flame")
    page.click("input[name=direction]", 1)
    # What changes most is the widest frame of the second row, at the left.
    canvas = page.one("#canvas")
    page.run("arguments[0].scrollIntoView()", canvas)
    said = page.tip(canvas, 20, 28)
    expect("the largest change in words", (name in said, (growth or ("grew by" if grew else "shrank by") in said)), (True, True))
    # Below the label.
    expect("and in colour", colour_of(page, (3, 36)), "orange" if grew else "blue")
    page.picture("flame")
    page.point(canvas, 20, 28, click=True)
    expect("zoomed in", page.one("#flame-back").is_enabled(), True)
    page.press(Keys.BACKSPACE, "#canvas")
    expect("zoomed back", page.one("#flame-back").is_enabled(), False)
    page.press(Keys.ARROW_DOWN, "#canvas")
    expect("the keyboard names it", name in page.text("#flame-words"), True)
    page.tab("functions")
    page.click("#function-table td.name button")
    expect("callers, with both figures", page.texts("#called-by th")[1:3], ["Old", "New"])
    page.picture("callers")
    page.run("[...document.querySelectorAll('#callers .bar button')].find(e => e.textContent === 'Sandwich').click()")
    page.in_menu("#merge").click()
    page.names("last")
    page.tab("sites")
    merged = rows_by_state(page)
    expect("of names their last part", [name for _, name in merged if "::" in name and "{" not in name], [])
    page.in_menu("#merge").click()
    page.names("full")
    expect("names as before", rows_by_state(page), wanted)
    page.tab("flame")
    words = METRIC_WORDS[diff["sort"]]
    expect("what changed around it", f"{words[0].upper()}{words[1:]} of all stacks through it: " in page.text("#sandwich-middle"), True)
    page.picture("sandwich")
    whole_graph(page)
    page.resize(240, 844)
    page.wait(lambda: page.run("return document.getElementById('canvas').width < 240"))
    expect("labels wider than their frames", squeezed(page), [])
    page.resize()
    for tab in ("modules", "sizes"):
        page.tab(tab)
        expect(f"{tab} are there", len(page.all(f"#{tab} tbody tr")) > 0, True)
        page.picture(tab)
    for metric in ("peak", "growth", "allocated", "allocations", "temporary", "live", diff["sort"]):
        page.choose("#metric", metric)
    page.tab("overview")
    page.in_menu("#noise").click()
    expect("library noise changes no sum", page.tiles()["Change"], tiles["Change"])
    page.in_menu("#noise").click()
