"""Threads and allocators of a stack, what is below a row, links to sources."""
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from checks.looks import page_data, stacks_found
from checks.words import expect, say_bytes


def check_origin(page):
    """Which threads allocated by a stack, and by which allocator; what is below a row."""
    data = page_data(page)
    sites, names = sorted(data["sites"], key=lambda site: sum(site["ab"]), reverse=True), {4711: "worker", 4712: "helper"}

    def origins():
        return page.run("return [...document.querySelectorAll('#sites tbody tr:not(.below)')].map(row => [...row.querySelectorAll('.origin')].map(e => e.textContent))")

    def label(site):
        share = 100 * site["thb"][0] / sum(site["thb"])
        return f"{names[site['th'][0]]}{f' {share:.0f} %' if share < 99.5 else ''}"
    page.tab("sites")
    page.run("[...document.querySelectorAll('#sites th button')].find(e => e.textContent.startsWith('Allocated')).click()")
    wanted = [[data["owners"][site["owner"]] or "others", label(site)] for site in sites]
    expect("allocators and threads", origins()[:20], wanted[:20])
    row = next(i for i, site in enumerate(sites) if len(site["th"]) > 1)
    fold = page.all("#sites tbody tr")[row].find_element(By.CSS_SELECTOR, ".fold")
    fold.send_keys(Keys.ENTER)
    shares = [f"{names[tid]} ({tid}) {100 * size / sum(sites[row]['thb']):.1f} %" for tid, size in zip(sites[row]["th"], sites[row]["thb"])]
    hidden = page.run("return [...document.querySelectorAll('#sites .fold')].filter(e => e.getBoundingClientRect().right > e.closest('td').getBoundingClientRect().right).length")
    expect("buttons of rows that nobody sees", hidden, 0)
    lost = "At the end 100 of 1,000 live blocks were probably lost: nothing points to them."
    expect("all of its threads, and what is lost", page.text("#sites .below .note"),
           f"Allocated by {', '.join(shares)}. Allocator: {wanted[row][0]}. {lost} Held by {sites[row]['holder']}.")
    page.picture("below-stack")
    page.run("[...document.querySelectorAll('#sites .below .bar button')].find(e => e.textContent === 'Show in the flame graph').click()")
    expect("its place in the graph", (page.shown("#flame"), page.one("#flame-back").is_enabled()), (True, True))
    page.back()
    page.back()
    page.wait(lambda: page.shown("#sites"))
    # As terms of the search: any of its threads.
    for text, kept in (("thread:helper", lambda site: 4712 in site["th"]), ("-thread:4712", lambda site: 4712 not in site["th"]), ("thread:471", lambda site: False)):
        page.run("location.hash = arguments[0]", f"#/sites&find={text}")
        page.wait(lambda k=kept: stacks_found(page) == str(sum(1 for site in sites if k(site))))
    page.run("location.hash = '#/threads'")
    page.wait(lambda: page.shown("#threads"))
    fold = page.all("#threads .fold")[1]
    fold.send_keys(Keys.SPACE)
    helped = sorted((dict(zip(site["th"], site["thb"]))[4712] for site in sites if 4712 in site["th"]), reverse=True)
    said = page.run("return [...document.querySelectorAll('#threads .below li')].map(e => e.childNodes[1].textContent.trim())")
    expect("stacks of a thread", said, [say_bytes(size) for size in helped[:10]])
    page.picture("below-thread")
    check_below_function(page, data)
    page.tab("modules")
    page.click("#modules .fold")
    live = sorted((sum(site["ab"]) - sum(site["fb"]) for site in sites if site["node"]), reverse=True)
    said = page.run("return [...document.querySelectorAll('#modules .below li')].map(e => e.childNodes[1].textContent.trim())")
    expect("stacks of the unknown, and of a module", said, [say_bytes(sum(sum(site["ab"]) - sum(site["fb"]) for site in sites if not site["node"]))])
    page.click("#modules .fold", 1)
    said = page.run("return [...document.querySelectorAll('#modules .below')[1].querySelectorAll('li')].map(e => e.childNodes[1].textContent.trim())")
    expect("stacks of a module", said, [say_bytes(size) for size in live[:10]])
    page.resize(390, 844)
    page.wait(lambda: page.run("return document.documentElement.scrollWidth <= innerWidth"))
    page.picture("below-390")
    page.tab("sites")
    page.picture("sites-390")
    page.resize()
    page.run("location.hash = '#/overview'")
    page.wait(lambda: page.shown("#overview"))


def check_below_function(page, data):
    """The nearest callers below a function's row are those of its tables."""
    page.tab("functions")
    fold = page.one("#function-table .fold:not(.around)")
    name = page.text("#function-table td.name button")
    fold.click()

    def near(side):
        return page.run("""return [...document.querySelectorAll('#function-table .below .pair > div')[arguments[0]].querySelectorAll('li')]
            .map(e => [e.querySelector('button').title, e.lastChild.textContent.trim().split(',')[0]])""", side)
    called, calls = near(0), near(1)
    expect("callers or callees", len(called) + len(calls) > 0, True)
    page.picture("below-function")
    page.run("[...document.querySelectorAll('#function-table .below .bar button')].find(e => e.textContent === 'As tables').click()")
    expect("its tables", page.text("#callers h2").startswith(name), True)
    for table, rows in (("called-by", called), ("calls", calls)):
        shown = page.run("""return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].filter(row => row.querySelector('.name button'))
            .map(row => [row.querySelector('.name button').title, row.cells[0].textContent])""", table)
        expect(f"{table} says the same", sorted(shown)[:10] if len(shown) <= 10 else rows, sorted(rows) if len(shown) <= 10 else rows)
    page.run("document.querySelector('#function-table .fold:not(.around)').click()")


def check_editor(page):
    """Links to sources, where the build had them and where they are; remembered by the browser."""
    def links():
        return page.run("return [...new Set([...document.querySelectorAll('#sites a.place')].map(e => e.getAttribute('href').replace(/[0-9]+$/, 'N')))]")

    def enter(**words):
        page.press("?")
        for name, text in words.items():
            field = page.one(f"#{name.replace('_', '-')}")
            field.clear()
            field.send_keys(text, Keys.TAB)
        said = page.text("#editor-words")
        page.picture("editor")
        page.press(Keys.ESCAPE)
        return said
    page.tab("sites")
    expect("no links without an editor", links(), [])
    page.press("?")
    expect("what is proposed", page.one("#path-built").get_attribute("placeholder"), "/src")
    page.press(Keys.ESCAPE)
    enter(editor="vscode://file{file}:{line}")
    expect("as built", links(), ["vscode://file/src/program.cc:N"])
    said = enter(path_built="/src/", path_here="/home/me/s$&c #1/")
    expect("where it is here", links(), ["vscode://file/home/me/s$&c%20%231/program.cc:N"])
    expect("in words", said, "1 path of 1 is moved. /src/program.cc opens as vscode://file/home/me/s$&c%20%231/program.cc:1.")
    # Of whole names of directories.
    enter(path_built="/sr")
    expect("another directory", links(), ["vscode://file/src/program.cc:N"])
    enter(path_built="/")
    expect("all directories", links(), ["vscode://file/home/me/s$&c%20%231/src/program.cc:N"])
    page.driver.refresh()
    page.drawn()
    page.tab("sites")
    expect("remembered", links(), ["vscode://file/home/me/s$&c%20%231/src/program.cc:N"])
    for width in (390, 1280):
        page.resize(width, 844)
        page.press("?")
        expect("the help has room", page.run("const e = document.getElementById('help'); return e.scrollWidth <= e.clientWidth && e.getBoundingClientRect().right <= innerWidth"), True)
        page.picture(f"help-{width}")
        page.press(Keys.ESCAPE)
    page.resize()
    said = enter(editor="javascript:alert(1)")
    expect("none of a script", (links(), "Links of this kind are not made." in said), ([], True))
    enter(editor="", path_built="", path_here="")
