"""Tables: sums, rows, order, filters; what is below a row."""
from selenium.webdriver.common.keys import Keys

from checks.looks import labels_drawn, page_data, table_sum, text_of
from checks.page import check_quiet
from checks.words import expect, numbers


def check_tables(page, report):
    page.tab("sites")
    page.choose("#metric", "allocations")
    more = page.one("#sites > button")
    while more.is_displayed():
        more.click()
    expect("sum of the stacks' allocations", table_sum(page, "#sites", 4), report["totals"]["allocations"])
    first = page.text("#sites tbody tr")
    page.click("#sites th button", 4)
    if len(page.all("#sites tbody tr")) > 1:
        expect("order turned", page.text("#sites tbody tr") != first, True)
    expect("order said", page.all("#sites th")[4].get_attribute("aria-sort"), "ascending")
    page.picture("stacks")
    page.click("#sites td.name button")
    expect("a stack opens", page.one("#stack").get_attribute("open") is not None, True)
    page.picture("stack")
    page.click("#stack-flame")
    expect("the stack in the graph", (page.shown("#flame"), page.one("#flame-back").is_enabled()), (True, True))
    page.back()
    expect("back to the whole graph", (page.shown("#flame"), page.one("#flame-back").is_enabled()), (True, False))
    page.back()
    page.wait(lambda: page.shown("#sites"))
    page.tab("sizes")
    expect("sum of the sizes", table_sum(page, "#sizes > div:nth-of-type(1)", 1), report["totals"]["allocations"])
    page.picture("sizes")
    page.tab("modules")
    expect("sum of the modules", table_sum(page, "#modules", 4), report["totals"]["allocations"])


def check_rows(page, report):
    """A row is one line, with a bar for its share; its frames open below it; all rows can be copied."""
    page.tab("sites")
    page.choose("#metric", "allocations")
    rows = page.all("#sites tbody tr")
    expect("lines of a row", page.run("return Math.max(...[...document.querySelectorAll('#sites tbody tr')].map(e => e.offsetHeight))") < 40, True)
    share = page.run("return document.querySelector('#sites td.shared').style.backgroundSize")
    first = int(page.run("return document.querySelector('#sites td.shared').textContent").replace(",", ""))
    expect("its share", abs(float(share.split("%")[0]) - 100 * first / report["totals"]["allocations"]) < 0.1, True)
    fold = page.one("#sites td.name .fold")
    fold.click()
    frames = page.texts("#sites .below li button")
    expect("its frames", (len(frames) > 1, fold.get_attribute("aria-expanded")), (True, "true"))
    fold.click()
    expect("closed again", (len(page.all("#sites tbody tr")), fold.get_attribute("aria-expanded")), (len(rows), "false"))
    page.run("Object.defineProperty(navigator, 'clipboard', {configurable: true, value: {writeText: async text => { window.copied = text; }}})")
    page.run("[...document.querySelectorAll('#sites .caption button')].find(e => e.textContent === 'Copy as TSV').click()")
    lines = [line.split("\t") for line in page.run("return window.copied").strip("\n").split("\n")]
    head, *cells = lines
    expect("columns", (head[4], head[-1], len({len(line) for line in lines})), ("Allocations", "Stack", 1))
    expect("copied allocations", sum(int(line[4]) for line in cells), report["totals"]["allocations"])
    expect("a copied stack", cells[0][-1], " <- ".join(frames))


def check_lifetimes(page, report):
    """Threads, lifetimes and sizes of sites add up to the totals; each table is sorted by click."""
    totals = report["totals"]
    page.tab("threads")
    expect("allocations of the threads", numbers(text_of(page, "#threads", 5)), totals["allocations"])
    threads = len(text_of(page, "#threads", 0))
    expect("their number", page.text("#threads .caption").startswith(
        "1 thread by what it allocated" if threads == 1 else f"{threads} threads by what they allocated"), True)
    page.picture("threads")
    page.tab("lifetimes")
    expect("blocks that live, by age", numbers(text_of(page, "#lifetimes > div:nth-of-type(1)", 3)), totals["live_allocations"])
    expect("blocks that live, by stack", numbers(text_of(page, "#lifetimes > div:nth-of-type(2)", 3)), totals["live_allocations"])
    expect("blocks that were freed, by age and by stack", numbers(text_of(page, "#lifetimes > div:nth-of-type(1)", 1)),
           numbers(text_of(page, "#lifetimes > div:nth-of-type(2)", 0)))
    freed = totals["frees"] - totals["reallocations"] - totals.get("untracked_allocations", 0)
    expect("blocks that were freed", numbers(text_of(page, "#lifetimes > div:nth-of-type(1)", 1)), freed)
    page.picture("lifetimes")
    page.tab("sizes")
    expect("allocations by stack", numbers(text_of(page, "#sizes > div:nth-of-type(2)", 0)), totals["allocations"])
    for tab in ("threads", "lifetimes", "sizes", "modules", "functions"):
        page.tab(tab)
        head = page.all(f"#{tab} th button")[-1]
        head.send_keys(Keys.ENTER)
        expect(f"{tab} are sorted by the keyboard", page.all(f"#{tab} th")[-1].get_attribute("aria-sort") != "none", True)


def check_functions(page):
    page.tab("functions")
    page.click("#function-table td.name button")
    heading = page.text("#callers h2")
    expect("callers of a function", bool(heading), True)
    page.picture("callers")
    for table in ("called-by", "calls"):
        page.press(Keys.ENTER, f"#{table} th:last-child button")
        expect(f"{table} is sorted by its names", page.one(f"#{table} th:last-child").get_attribute("aria-sort"), "ascending")
    page.click("#callers td.name button")
    other = page.text("#callers h2")
    expect("another function's callers", other != heading, True)
    page.back()
    page.wait(lambda: page.text("#callers h2") == heading)
    page.forward()
    page.wait(lambda: page.text("#callers h2") == other)
    page.click("#callers > .bar button")
    expect("the function in the graph", (page.shown("#flame"), page.one("#flame-back").is_enabled()), (True, True))
    page.back()
    page.back()
    page.wait(lambda: page.shown("#functions"))


def check_filter(page):
    """A table's own field: by what stands in its rows, kept when the page is drawn anew."""
    for tab, table, column in (("functions", "function-table", 3), ("sizes", "sizes-all", 0), ("sites", "sites", -1)):
        page.tab(tab)
        fields, rows = page.all(f"#{table} .caption input"), page.all(f"#{table} tbody tr")
        if not fields:
            expect(f"{table} is too short for a filter", len(rows) <= 5, True)
            continue
        words = page.run("const cell = [...arguments[0].cells].at(arguments[1]); return (cell.querySelector('button') || cell).textContent",
                         rows[len(rows) // 2], column)
        fields[0].send_keys(words[:60])
        page.wait(lambda t=table: " of " in page.text(f"#{t} .caption [role=status]"))
        expect(f"{table} filtered by '{words[:60]}'", 0 < len(page.all(f"#{table} tbody tr")) <= len(rows), True)
        fields[0].send_keys("no such thing at all")
        page.wait(lambda t=table: not page.all(f"#{t} tbody tr"))
        page.tab("modules")
        page.tab(tab)
        field = page.one(f"#{table} .caption input")
        expect(f"{table} is still filtered", (len(page.all(f"#{table} tbody tr")), field.get_property("value") != ""), (0, True))
        page.run("arguments[0].value = ''; arguments[0].oninput()", field)
        page.wait(lambda t=table, r=rows: len(page.all(f"#{t} tbody tr")) == len(r))


def check_headings(page, headings):
    """The first function of each stack, and that by which it allocated, as in the report."""
    page.tab("sites")
    page.choose("#metric", "live")
    text_of(page, "#sites", 0)
    rows = page.run("""return [...document.querySelectorAll('#sites tbody tr')].filter(row => !/^0 B/.test(row.cells[0].textContent)).map(row =>
        [row.querySelector('td.name button'), row.querySelector('.via')].filter(Boolean).map(e => e.textContent).join(' '))""")
    expect("one of them", any(" (via " in one for one in headings), True)
    expect("headings", sorted(rows), sorted(headings))
    page.resize(1440, 900)
    # Parts of a pixel are enough for an ellipsis.
    cut = page.run("""
        const text = document.createRange();
        return [...document.querySelectorAll('#sites .place > *')].filter(e => {
            text.selectNodeContents(e);
            return text.getBoundingClientRect().width > e.getBoundingClientRect().width + 0.02;
        }).map(e => e.textContent)""")
    expect("places that are cut, though callers could be", cut, [])
    page.resize()
    page.in_menu("#noise").click()
    expect("none where library frames are shown", page.all("#sites .via"), [])
    check_quiet(page)


def check_many(page):
    """As many stacks as a server has: a table draws a bounded part of them, also where single letters filter it."""
    page.tab("sites")
    field, rows = page.one("#sites .caption input"), len(page.all("#sites tbody tr"))
    # Some look alike, and are one row.
    all_rows = page.text("#sites .caption .note").removesuffix(" stacks")
    expect("stacks", int(all_rows.replace(",", "")) > 0.9 * len(page_data(page)["sites"]), True)
    expect("rows that are drawn", 0 < rows <= 100, True)
    for text in ("f", "fu", "function"):
        field.send_keys(text[len(field.get_property("value")):])
        page.wait(lambda: page.text("#sites .caption [role=status]").endswith(f" of {all_rows}"))
        expect("rows of a filter", 0 < len(page.all("#sites tbody tr")) <= 100, True)
    # Letters are of names: each figure has a unit.
    field.clear()
    field.send_keys("kib")
    page.wait(lambda: page.text("#sites .caption [role=status]") == f"0 of {all_rows}")
    page.run("arguments[0].value = ''; arguments[0].oninput()", field)
    page.wait(lambda: page.text("#sites .caption [role=status]") == "")
    more = page.one("#sites > button")
    for _ in range(4):
        more.click()
    first = page.text("#sites tbody tr")
    expect("rows after Show more", len(page.all("#sites tbody tr")), 1000)
    expect("the rows that follow", "Next 1,000" in more.text, True)
    page.click("#sites .caption button")
    expect("the first rows again", page.text("#sites tbody tr") != first, True)
    page.tab("flame")
    expect("what is too small to draw is counted", any("smaller frames" in label for label in labels_drawn(page)), True)
    check_quiet(page)
