"""The first view: totals, findings, the words on top."""
from selenium.webdriver.common.keys import Keys

from checks.looks import page_data
from checks.words import ENDS, expect, say_bytes


def say_peak(totals):
    """Its bounds, unless the order of threads hardly matters."""
    peak, least, most = totals["peak_bytes"], totals.get("peak_bytes_min"), totals.get("peak_bytes_max")
    near = least is None or most is None or most - least <= peak / 100
    return say_bytes(peak) if near else f"{say_bytes(least)} to {say_bytes(most)}"


def check_overview(page, report):
    totals, tiles = report["totals"], page.tiles()
    expect("live at the end", tiles["Live at the end"].split("\n")[0], say_bytes(totals["live_bytes"]))
    unknown = totals.get("live_bytes_min", 0) is None and totals["live_bytes_max"] is None and any(
        loss["inexact"] and loss["reason"] != "sampled" for loss in report["capture"]["losses"])
    expect("whether that is true", "the true figure is not known" in tiles["Live at the end"], unknown)
    expect("live blocks", tiles["Live blocks"], f"{totals['live_allocations']:,}")
    expect("allocations", tiles["Allocations"], f"{totals['allocations']:,}")
    expect("allocated", tiles["Allocated"], say_bytes(totals["allocated_bytes"]))
    peak = [value for name, value in tiles.items() if name.startswith("Peak")]
    said, capture = page.text("#overview"), report.get("capture", {"complete": True})
    expect("not complete", "The capture is not complete: " in said, not capture["complete"])
    for loss in capture.get("losses", []):
        if loss["reason"] != "sampled":
            expect(f"why: {loss['words']}", f": {loss['words']}" in said, True)
    expect("figures not exact", "Figures are not exact: " in said,
           any(not loss["incomplete"] and loss["reason"] != "sampled" for loss in capture.get("losses", [])))
    expect("out of reach", "of the resident memory is out of reach" in said,
           capture.get("unseen_rss_share") is not None)
    expect("peak", peak, [say_peak(totals)])
    born, marks = report.get("born"), report.get("marks") or []
    names = {mark["time_s"]: mark["name"] for mark in reversed(marks)}
    expect("marks", [mark["name"] for mark in marks if f"{names[mark['time_s']]} (" not in said], [])
    expect("births", [part in said for part in ("Only what was", "an hour)")] if born else [], [True, False] if born else [])
    if born:
        since, until = (names.get(born[key], None) for key in ("from_seconds", "to_seconds"))
        expect("births between", f" between {since or ''}" in said and f" and {until or ''}" in said, True)
    if "end" in capture:
        expect("how it ended", ENDS[capture["end"]] in page.text("#about"), True)
    page.picture("overview")


def check_verdict(page, report):
    """The words on top are the analyzer's, of findings that the report has, too; its buttons show what they are about."""
    data = page_data(page)
    verdict, text = data["verdict"], page.text("#verdict-text")
    if verdict is None:
        live = f"{say_bytes(report['totals']['live_bytes'])} live at the end, of what "
        expect("what is shown instead", text.startswith(live + ("was allocated between " if report.get("born") else "a filter keeps.")), True)
        return
    expect("the verdict", (verdict, text), (report["verdict"], verdict["sentences"][0]))
    expect("the rest of it", page.text("#verdict-more"), " ".join(verdict["sentences"][1:]))
    resident = report["resident"]
    if resident["moment"] == "end":
        expect("resident memory", page.text("#verdict-memory p"), f"Resident at the end: {say_bytes(resident['bytes'])}")
        expect("its parts", page.run("return [...document.querySelectorAll('#verdict-memory li')].map(e => e.textContent.trim())"),
               [part["text"] for part in resident["parts"]])
        expect("add up", page.run("return [...document.querySelectorAll('#verdict-memory .parts span')].reduce((sum, e) => sum + parseFloat(e.style.width), 0) > 99.9"), True)
    page.run("Object.defineProperty(navigator, 'clipboard', {configurable: true, value: {writeText: async text => { window.copied = text; }}})")
    page.click("#verdict-copy")
    copied = page.run("return window.copied").replace("\\", "")
    expect("as Markdown", all(words in copied for words in [f"**{text}**"] + [one["text"] for one in report["findings"]]), True)
    about = verdict["node"]
    expect("a stack to show", page.shown("#verdict-stack"), bool(about))
    if about:
        page.click("#verdict-stack")
        expect("the culprit's stack", any(verdict["culprit"] in frame.text for frame in page.all("#stack-body li button")), True)
        page.press(Keys.ESCAPE)
        page.click("#verdict-flame")
        expect("its place in the graph", (page.shown("#flame"), page.one("#flame-back").is_enabled()), (True, True))
        page.back()
        page.back()
        page.wait(lambda: page.shown("#overview"))


def check_part(page, begin, end):
    edges = page_data(page)["buckets"]
    for name, wanted in (("from", begin), ("to", end)):
        shown = float(page.one(f"#{name}").get_property("value"))
        expect(f"the step nearest to {wanted}", abs(shown - min(edges, key=lambda edge: abs(edge - wanted))) < 0.001, True)
    expect("the rest is there", page.one("#all-time").is_enabled(), True)
    page.click("#all-time")
    expect("all of it", float(page.one("#from").get_property("value")), 0.0)
    page.back()
    page.wait(lambda: page.one("#all-time").is_enabled())
