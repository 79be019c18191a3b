"""What is around a page: windows of all widths, colours, paper, keys, help for those who do not see it."""
import pathlib

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from checks.looks import fingers, whole_graph
from checks.page import VIEWS, media
from checks.words import expect


def beyond(page):
    """Tables that have to be scrolled sideways, and frames of stacks that are cut."""
    return page.run("""
        const seen = selector => [...document.querySelectorAll(selector)].filter(e => e.offsetWidth);
        return [...seen('.wide').filter(e => e.scrollWidth > e.clientWidth).map(e => `${e.getAttribute('aria-label')}: ${e.scrollWidth} > ${e.clientWidth}`),
            ...seen('.frames li').filter(e => e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)]""")


def check_header(page):
    """One row of controls where there is room, two on a tablet; and a menu that mouse, keys and fingers open and close."""
    rows = """
        const middles = [...document.querySelectorAll('.who > *, .tools > *, #search > *')].filter(e => e.offsetHeight > 1)
            .map(e => e.getBoundingClientRect()).map(box => (box.top + box.bottom) / 2).sort((a, b) => a - b);
        return middles.filter((at, i) => !i || at > middles[i - 1] + 8).length"""
    for width, most in ((1440, 1), (1024, 2)):
        page.resize(width, 900)
        expect(f"rows of the header, {width} pixels wide", page.run(rows) <= most, True)
    menu, button = page.one("#view .menu"), page.one("#view > summary")
    expect("closed at first", menu.is_displayed(), False)
    button.send_keys(Keys.ENTER)
    expect("open by the keyboard", menu.is_displayed(), True)
    ActionChains(page.driver).send_keys(Keys.TAB).perform()
    expect("what comes next", page.run("return document.activeElement.id"), "names")
    ActionChains(page.driver).send_keys(Keys.ESCAPE).perform()
    expect("closed by Escape", (menu.is_displayed(), page.run("return document.activeElement === arguments[0]", button)), (False, True))
    left, top = page.run("const b = arguments[0].getBoundingClientRect(); return [b.width / 2, b.height / 2]", button)
    fingers(page, button, [(left, top)])
    page.wait(menu.is_displayed)
    page.press(Keys.SHIFT, "#find")
    expect("closed when the focus goes", menu.is_displayed(), False)
    changed, before = page.in_menu("#noise"), button.get_attribute("aria-label")
    changed.click()
    expect("its button tells that something is changed", button.get_attribute("aria-label"), "View, changed")
    changed.click()
    expect("and that nothing more is", button.get_attribute("aria-label"), before)
    page.click("#title")
    expect("closed by a click beside it", menu.is_displayed(), False)
    page.resize(390, 800)
    button.click()
    place = page.run("const b = arguments[0].getBoundingClientRect(); return [b.left, b.right]", menu)
    expect(f"the menu within a phone: {place}", place[0] >= 0 and place[1] <= 390, True)
    button.click()
    page.resize()


def check_surroundings(page):
    """What the system says of colours, a narrow window, paper."""
    paper = "return getComputedStyle(document.body).backgroundColor"
    page.press("d")
    light = page.run(paper)
    media(page, colours="dark")
    page.wait(lambda: page.run(paper) != light)
    page.tab("flame")
    page.picture("system-dark")
    for width in (390, 2560):
        page.resize(width, 800)
        for tab in VIEWS:
            page.tab(tab)
            page.wait(lambda: page.run("return document.documentElement.scrollWidth <= innerWidth"))
            for fold in page.all(f"#{tab} .fold:not(.around)")[:1] if tab in ("sites", "functions", "lifetimes", "sizes") else ():
                page.run("arguments[0].click()", fold)
            expect(f"what of {tab} is beyond {width} pixels", beyond(page), [])
            page.picture(f"{tab}-{width}")
    check_header(page)
    page.resize()
    media(page, media="print", colours="dark")
    page.run("dispatchEvent(new Event('beforeprint'))")
    expect("printed dark on white", page.run(paper), light)
    unseen = page.run("return [...document.querySelectorAll('main > section')].filter(e => !e.offsetHeight).map(e => e.id)")
    expect("views that are not printed", unseen, [])
    expect("names are printed", page.all("#sites td.name button")[0].is_displayed(), True)
    expect("the graph is printed", page.run("return document.getElementById('canvas').offsetHeight > 30"), True)
    expect("controls are not", page.shown("#find"), False)
    page.run("dispatchEvent(new Event('afterprint'))")
    media(page)
    page.wait(lambda: page.run(paper) == light)
    expect("one view again", len([e for e in page.all("main > section[role=tabpanel]") if e.is_displayed()]), 1)


def check_manners(page):
    page.tab("overview")
    page.press(Keys.ARROW_RIGHT, "#tab-overview")
    expect("arrows move along the views", page.one("#tab-flame").get_attribute("aria-selected"), "true")
    page.press("1")
    expect("numbers choose views", page.one("#tab-overview").get_attribute("aria-selected"), "true")
    dark = page.run("return getComputedStyle(document.body).backgroundColor")
    page.press("d")
    expect("light or dark", page.run("return getComputedStyle(document.body).backgroundColor") != dark, True)
    page.picture("dark")
    page.press("?")
    expect("help opens", page.one("#help").get_attribute("open") is not None, True)
    field = page.one("#editor")
    field.send_keys("javascript:alert(1)//{file}", Keys.TAB)
    expect("no script as an editor", page.all("a[href^=javascript]"), [])
    field.clear()
    field.send_keys("vscode://file{file}:{line}", Keys.TAB)
    page.press(Keys.ESCAPE)
    unnamed = page.run("""return [...document.querySelectorAll('button, input, select, canvas, [tabindex="0"]')].filter(e =>
        !e.closest('label, [aria-hidden=true]') && !e.textContent.trim() && !e.getAttribute('aria-label')).map(e => e.outerHTML.slice(0, 120))""")
    expect("controls without a name", unnamed, [])
    ids = page.run("const all = [...document.querySelectorAll('[id]')].map(e => e.id); return all.length - new Set(all).size")
    expect("ids that come twice", ids, 0)


def check_phone(page):
    """As wide as a phone: names are there, and one figure beside them."""
    page.resize(390, 844)
    for tab in ("sites", "functions", "modules", "threads"):
        page.tab(tab)
        name = "#function-table td.name" if tab == "functions" else f"#{tab} td.name"
        page.wait(lambda n=name: page.run("""
            const box = document.querySelector(arguments[0]).getBoundingClientRect();
            return box.width > 100 && box.right <= innerWidth""", n))
        figures = page.run("return [...document.querySelector(arguments[0]).parentNode.cells].filter(e => e.offsetWidth).length", name)
        # Of a thread its number, too.
        expect(f"cells of a row of {tab}", figures, 3 if tab == "threads" else 2)
    page.resize()


def check_print(page):
    """On paper nothing is cut at the right, and tables have the rows that somebody reads."""
    page.tab("overview")
    page.run("dispatchEvent(new Event('beforeprint'))")
    media(page, media="print")
    page.resize(718, 1000)
    rows = page.run("return [...document.querySelectorAll('main table')].map(e => e.tBodies[0].rows.length)")
    expect("rows on paper", max(rows) <= 40, True)
    expect("how many there are", "the first 40 of " in page.text("#sites .caption"), True)
    beyond = page.run("""return [...document.querySelectorAll('main *')].filter(e => e.offsetWidth && e.getBoundingClientRect().right > innerWidth + 1)
        .map(e => e.outerHTML.slice(0, 80))""")
    expect("what is cut", beyond, [])
    height = page.run("return document.documentElement.scrollHeight")
    expect(f"height of {height} px", height < 20000, True)
    page.picture("print")
    media(page)
    page.resize()
    page.run("dispatchEvent(new Event('afterprint'))")
    page.tab("sites")
    expect("rows on the screen", len(page.all("#sites tbody tr")), 100)


def check_axe(page, path):
    """What axe-core, the checker of accessibility, finds in each view, light and dark."""
    page.run(pathlib.Path(path).read_text(encoding="utf-8"))
    tabs = [tab.get_attribute("id").removeprefix("tab-") for tab in page.all("[role=tab]")]
    found = []
    page.one("#find").send_keys("-no_such_function", Keys.ENTER)
    for scheme in ("light", "dark"):
        media(page, colours=scheme)
        page.wait(lambda s=scheme: page.run("return document.documentElement.classList.contains('dark')") == (s == "dark"))
        for tab in (*tabs, "sandwich", "menu", "help"):
            page.tab({"sandwich": "flame", "menu": "flame", "help": "flame"}.get(tab, tab))
            if tab == "menu":
                page.in_menu("#merge").click()
            if tab == "sandwich":
                page.run("document.querySelector('input[value=around]').click()")
                expect("callers and callees are looked at", page.shown("#callees-canvas"), True)
            if tab == "help":
                page.press("?")
            for fold in page.all(f"#{tab} .fold:not(.around)")[:1]:
                page.run("arguments[0].click()", fold)
            if tab in ("sites", "functions"):
                page.click(f"#{tab} td.name button")
            if tab == "flame":
                # Details of a frame, of a part of the time.
                if page.one("#from").is_enabled() and page.shown("#from"):
                    page.run("const f = document.getElementById('from'); f.value = document.getElementById('to').value / 2; f.onchange()")
                for key in (Keys.HOME, Keys.ARROW_DOWN, "p"):
                    page.press(key, "#canvas")
                expect("details are looked at", page.shown("#pin"), True)
            found += page.driver.execute_async_script("""
                const done = arguments[arguments.length - 1];
                axe.run(document, {resultTypes: ['violations']}).then(result => done(result.violations.flatMap(one =>
                    one.nodes.map(node => `${arguments[0]}, ${arguments[1]}: ${one.id}: ${node.html.slice(0, 100)} ${node.failureSummary.slice(0, 200)}`))))""",
                tab, scheme)
            page.run("const open = document.querySelector('dialog[open]'); if (open) open.close()")
        whole_graph(page)
    expect("what axe finds", "\n".join(found), "")
    media(page)


def check_hostile(page, name):
    if name:
        page.tab("functions")
        page.press(name, "#find")
        # In one go: the table is drawn anew while we look.
        page.wait(lambda: any(name in text for text in page.run(
            "return [...document.querySelectorAll('#function-table td.name button')].map(e => e.textContent)")))
        expect("nothing of it became an element", page.run("return document.querySelectorAll('script').length"), 3)
        expect("nothing of it ran", page.run("return window.owned === undefined"), True)
