"""The search: by words, kinds and threads."""
import re
import urllib.parse

from selenium.webdriver.common.keys import Keys

from checks.looks import fingers, graph_title, page_data, stacks_found, stacks_of, text_of
from checks.words import expect, say_bytes


def check_find(page):
    page.tab("functions")
    rows = len(page.all("#function-table tbody tr"))
    name = page.all("#function-table td.name .one-line > :first-child")[-1].text
    page.press("/")
    page.run("document.getElementById('find').value = ''")
    page.press(name[:40], "#find")
    # In one go: what a part of the name has found is soon drawn anew.
    shown = "return [...document.querySelectorAll('#function-table td.name button')].map(e => e.textContent)"
    page.wait(lambda: len(page.all("#function-table tbody tr")) < rows and name in page.run(shown))
    page.tab("flame")
    expect("and lit in the graph", "found" in page.text("#flame-words"), True)
    page.search_nothing()


def check_search(page):
    """Terms of the search as chips: by keys, mouse and finger; in tables and the graph; in the address."""
    names = page_data(page)["strings"]
    stacks = [([names[function] for function in functions], live) for functions, live in stacks_of(page)]
    page.tab("sites")

    def chips():
        return page.run("return [...document.querySelectorAll('.chip')].map(e => e.firstChild.textContent)")

    def found():
        return int(stacks_found(page).replace(",", ""))

    def count(keep):
        return sum(1 for stack, _ in stacks if keep(stack))

    def has(words):
        return lambda stack: any(words in name for name in stack)
    plain, boxes, whole = count(has("plain_one(int)")), count(has("box::")), found()
    expect("stacks to look for", (boxes, boxes < plain < whole, whole), (3, True, len(stacks)))
    page.press("/")
    field = page.driver.switch_to.active_element
    field.send_keys("fn:plain_o")
    page.wait(lambda: found() == plain)
    expect("typed", (chips(), "find=fn%3Aplain_o" in page.run("return location.hash")), ([], True))
    expect("what completes it", page.run("return [...document.getElementById('find-list').options].map(e => e.value)"), ["fn:plain_one"])
    typed = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new InputEvent('input', {inputType: 'insertText'}))"
    offered = "return [...document.getElementById('find-list').options].map(e => e.value)"
    page.run(typed, field, '-fn:"operator ne')
    page.wait(lambda: page.run(offered) == ['-fn:"operator new"'])
    page.run(typed, field, "fn:plain_o")
    page.wait(lambda: page.run(offered) == ["fn:plain_one"])
    # As the browser does when somebody chooses from its list.
    page.run("arguments[0].value = 'fn:plain_one'; arguments[0].dispatchEvent(new InputEvent('input', {inputType: 'insertReplacementText'}))", field)
    page.wait(lambda: chips() == ["fn:plain_one"])
    field.send_keys("box::", Keys.ENTER)
    page.wait(lambda: found() == boxes)
    expect("entered", (chips(), field.get_property("value")), (["fn:plain_one", "box::"], ""))
    field.send_keys("-pair", Keys.ENTER)
    page.wait(lambda: found() == 2)
    expect("said to those who do not see it", page.run("return document.getElementById('search-words').textContent"), "Added: -pair")
    address = page.run("return location.href")
    page.picture("search")
    field.send_keys(Keys.BACKSPACE)
    page.wait(lambda: found() == boxes)
    field.send_keys(Keys.ARROW_LEFT)
    page.driver.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    page.driver.switch_to.active_element.send_keys(Keys.DELETE)
    page.wait(lambda: chips() == ["box::"])
    expect("the next one has the focus", page.run("return document.activeElement.firstChild.textContent"), "box::")
    page.back()
    page.wait(lambda: chips() == ["fn:plain_one", "box::"])
    page.click(".chip", 1)
    page.wait(lambda: chips() == ["fn:plain_one"] and found() == plain)
    width, height = page.run("const b = document.querySelector('.chip').getBoundingClientRect(); return [b.width, b.height]")
    expect("room for a finger", min(width, height) >= 24, True)
    fingers(page, page.one(".chip"), [(width / 2, height / 2)])
    page.wait(lambda: chips() == [] and found() == whole)
    check_search_in_address(page, address, chips, found)
    # Each kind, words with spaces, what looks like a kind or a minus and is none.
    for text, wanted in (("file:program.cc", count(bool)), ("file:plain", 0), ("module:libprogram", count(bool)), ("fn:libprogram", 0),
                         ('fn:"operator new"', count(has("operator new"))), ("-file:program.cc", count(lambda stack: not stack)),
                         ("core::ops", count(has("core::ops"))), ("FN:PLAIN_ONE", plain), ("fn: -", whole)):
        page.run("location.hash = arguments[0]", f"#/sites&find={urllib.parse.quote(text)}")
        page.wait(lambda w=wanted: found() == w)
    check_search_in_graph(page, stacks, has)
    page.resize(390, 844)
    page.wait(lambda: page.run("return document.documentElement.scrollWidth <= innerWidth"))
    page.picture("search-390")
    page.resize()
    page.run("location.hash = '#/overview'")
    page.wait(lambda: chips() == [] and page.shown("#overview"))


def check_search_in_address(page, address, chips, found):
    """A link leads to the same chips; one of older pages has words alone."""
    page.driver.get(address)
    page.wait(lambda: chips() == ["fn:plain_one", "box::", "-pair"] and found() == 2)
    page.run("location.hash = '#/functions&find=plain_one'")
    page.wait(lambda: chips() == ["plain_one"] and len(page.all("#function-table tbody tr")) == 1)


def check_search_in_graph(page, stacks, has):
    """What is excluded is left out; what is found is lit, and on request alone."""
    def weight(keep):
        return say_bytes(sum(live for stack, live in stacks if keep(stack)))
    page.run("location.hash = '#/flame&find=plain_one'")
    page.wait(lambda: "found" in graph_title(page))
    expect("all of it", graph_title(page).startswith(weight(lambda stack: True)), True)
    page.run("arguments[0].scrollIntoView({block: 'center'})", page.one("#only"))
    page.click("#only")
    page.wait(lambda: graph_title(page).startswith(weight(has("plain_one"))))
    expect("said", "only stacks that are found" in graph_title(page), True)
    page.run("location.hash = '#/flame&find=-plain_one'")
    page.wait(lambda: not page.one("#only").is_selected() and graph_title(page).startswith(weight(lambda stack: not has("plain_one")(stack))))
    expect("said, too", "without the stacks that are excluded" in graph_title(page), True)
    page.back()
    page.wait(lambda: page.one("#only").is_selected() and graph_title(page).startswith(weight(has("plain_one"))))


def check_thread_names(page):
    page.tab("threads")
    expect("names of threads", [text.removesuffix("▾") for text in text_of(page, "#threads", 8)], ["worker", "helper"])
    page.press("Work", "#find")
    page.wait(lambda: page.run("return document.getElementById('find').value") == "Work")
    page.wait(lambda: "find=work" in page.run("return location.hash"))
    expect("found by its name", text_of(page, "#threads", 0), ["4711"])
    page.search_nothing()
    names, helped = page_data(page)["strings"], {4711: set(), 4712: set()}
    for site, (functions, _) in zip(page_data(page)["sites"], stacks_of(page)):
        for tid in site["th"]:
            helped[tid].update(functions)
    one = next(found[0] for name in sorted(helped[4711] - helped[4712]) for found in [re.findall(r"function\d+\(", names[name])] if found)
    # A number is that of one thread; other terms are of what a thread allocated by.
    for text, wanted in (("thread:4712", ["4712"]), ("thread:471", []), ("-thread:4712", ["4711"]), ("4711", ["4711"]), ("plain_one", ["4711", "4712"]),
                         (f"fn:{one}", ["4711"]), (f"fn:{one} thread:helper", []), ("fn:no_such_function", []), ("thread:help", ["4712"])):
        page.run("location.hash = arguments[0]", f"#/threads&find={urllib.parse.quote(text)}")
        page.wait(lambda t=text: page.run("return [...document.querySelectorAll('.chip span:first-child')].map(e => e.textContent).join(' ')") == t)
        expect(f"threads of {text}", text_of(page, "#threads", 0), wanted)
    page.run("location.hash = '#/threads&names=full'")
    page.wait(lambda: not page.all(".chip"))
