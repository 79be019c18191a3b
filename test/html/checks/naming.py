"""Names of functions: shortened, out of the ordinary, called again and again."""
import pathlib
import re

from selenium.webdriver.common.keys import Keys

from checks.looks import beside_root, labels_drawn, page_data, squeezed, stacks_of
from checks.page import check_quiet
from checks.words import expect, say_bytes


def check_names(page):
    """Names are cut where a parameter list begins, in none of their brackets."""
    page.names("full")
    page.tab("functions")
    names = page.run("return [...document.querySelectorAll('#function-table td.name button')].map(e => e.textContent)")
    for name in ("main(int, char**)::<lambda(int)>::operator()", "main(int, char**)::<lambda(int)>", "main", "plain_one",
                 "operator new", "std::function<void (int)>::operator()", "(anonymous namespace)::helper",
                 "core::ops::function::FnOnce::call_once{{vtable.shim}}"):
        expect(f"the name {name}", name in names, True)


def check_series(page):
    """Which calls of a stack are shown once, by a list of cases."""
    here = pathlib.Path(__file__).parent
    rows = [line.split("\t") for line in here.with_name("recursion.tsv").read_text(encoding="utf-8").splitlines()]
    script = here.parents[2].joinpath("analyzer", "html", "recursion.js").read_text(encoding="utf-8")
    got = page.run(script + "; return arguments[0].map(([calls]) => callsInLine(calls.split(' '), (a, b) => a === b, a => a).join(' < '))", rows)
    expect("series of calls", got, [wanted for _, wanted in rows])


def check_recursion(page):
    """Of a page of two functions that call each other 21 times, a stack has them once: in its line, in the frames below it, and in the
    dialog; but each time if all frames are shown."""
    find = "const row = [...document.querySelectorAll('#sites tbody tr')].find(e => e.textContent.includes('parse_list'));"

    def shown(frames):
        names = page.run("return [...document.querySelectorAll(arguments[0])].map(e => [e.querySelector('button').textContent, e.querySelector('.note')?.textContent || ''])", frames)
        return ["".join((re.search(r"\w+(?=\(|$)", name.replace("(anonymous namespace)::", ""))[0], words)) for name, words in names]
    page.tab("sites")
    line = page.run(find + " return [...row.querySelectorAll('.where')].at(-1).textContent")
    expect("a stack in one line", line.replace("(anonymous namespace)::", ""), "← (parse_item ← parse_list) x21 ← main")
    page.run(find + " row.querySelector('.fold').click()")
    # The innermost item is at another line.
    wanted = ["remember", "parse_item", "parse_list", "parse_item (these 2 frames x20)", "parse_list", "main"]
    expect("its frames", shown("#sites .below li"), wanted)
    page.run(find + " row.querySelector('.fold').click(); row.querySelector('.one-line button').click()")
    whole = shown("#stack-body li")
    expect("the whole stack", [call for call in whole if call in wanted], wanted)
    expect("calls in it", len([call for call in whole if call.startswith("parse_")]), 4)
    page.run("document.querySelector('#stack').close()")
    page.in_menu("#noise").click()
    page.run(find + " row.querySelector('.fold').click()")
    page.wait(lambda: len([call for call in shown("#sites .below li") if call.startswith("parse_")]) == 42)
    expect("no series", [call for call in shown("#sites .below li") if " " in call], [])
    page.in_menu("#noise").click()


def check_name_steps(page):
    """Each step of a name, of a list of hard ones; tables, stacks and graph have it; instances of a template are one function."""
    rows = [line.split("\t") for line in pathlib.Path(__file__).parent.with_name("names.tsv").read_text(encoding="utf-8").splitlines()]
    script = pathlib.Path(__file__).parents[3].joinpath("analyzer", "html", "names.js").read_text(encoding="utf-8")
    got = page.run(script + "; return arguments[0].map(([name]) => [name, ...['templates', 'two', 'last'].map(step => NAME_STEPS[step].of(name))])", rows)
    for row, wanted in zip(got, rows):
        expect("steps of a name", row, wanted)
    stream = "node::(anonymous namespace)::CompressionStream<node::ZlibContext>::AllocForZlib"
    for name, room, wanted in ((stream, 200, stream), (stream, 60, "node::…::CompressionStream<...>::AllocForZlib"),
                               (stream, 40, "node::…::AllocForZlib"), (stream, 17, "…::AllocForZlib"), (stream, 12, "AllocForZlib"), (stream, 9, "Allo…Zlib"),
                               ("main(int)::{lambda(int)#1}::operator()(int) const", 28, "main::{lambda#1}::operator()"),
                               ("github.com/foo/bar.(*Server).handle", 25, "…(*Server).handle"),
                               ("libfoo.so.1+0x1234", 14, "libfoo…+0x1234"), ("operator new", 3, "o…w"), ("name", 1, "…"), ("name", 0, "…")):
        expect(f"{name} in {room}", page.run(script + "; return fitName(arguments[0], arguments[1], text => text.length)", name, room), wanted)
    whole, name = "(anonymous namespace)::helper(char const*)", "(anonymous namespace)::helper"
    for step, wanted, operator in (("last", "helper", "function<...>::operator()"), ("two", name, "std::function<...>::operator()"),
                                   ("templates", name, "std::function<...>::operator()"),
                                   ("full", name, "std::function<void (int)>::operator()")):
        page.names(step)
        page.tab("functions")
        shown = dict(page.run("return [...document.querySelectorAll('#function-table td.name button:first-child')].map(e => [e.title, e.textContent])"))
        expect(f"{step}, in the table", (shown[whole], shown["std::function<void (int)>::operator()(int) const"]), (wanted, operator))
        expect("in the address", f"names={step}" in page.run("return location.hash"), step != "templates")
        page.tab("sites")
        row = page.run("return [...document.querySelectorAll('#sites td.name')].findIndex(e => e.querySelector('button').title === arguments[0])", whole)
        page.run("document.querySelectorAll('#sites tbody tr')[arguments[0]].querySelector('.fold').click()", row)
        expect(f"{step}, in a stack", page.text("#sites .below li button"), whole if step == "full" else wanted)
        page.tab("flame")
        page.run("document.querySelector('input[value=up]').click()")
        label = "main(int, char**)::<lambda(int)>::operator()" if step == "full" else "main::<lambda>::operator()"
        expect(f"{step}, in the graph", label in labels_drawn(page), True)
        page.run("document.querySelector('input[value=down]').click()")
    check_cuts(page)
    check_instances(page)


def check_cuts(page):
    """Where a frame has no room for its name, the end of it stays; and so does that of a path."""
    page.tab("flame")
    page.resize(390, 844)
    page.wait(lambda: page.run("return document.getElementById('canvas').width < 390"))
    names = page_data(page)["strings"]
    cut = [label for label in labels_drawn(page) if "…" in label and "::" in label]
    expect("names without room", len(cut) > 3, True)
    expect("labels wider than their frames", squeezed(page), [])
    expect("their ends", [label for label in cut if not any(label.split("…")[-1] in name for name in names)], [])
    page.resize()
    page.tab("functions")
    kept = page.run("""
        const place = document.querySelector('#function-table .place');
        place.firstChild.textContent = '/a/long/path'.repeat(50);
        const [path, file] = [...place.children].map(e => [e.scrollWidth > e.clientWidth, e.getBoundingClientRect().right <= place.getBoundingClientRect().right + 1]);
        return [path[0], file[0], file[1]]""")
    expect("a path is cut, the file is not", kept, [True, False, True])
    page.tab("overview")


def check_instances(page):
    def rows():
        page.tab("functions")
        return dict(page.run("return [...document.querySelectorAll('#function-table tbody tr')].map(e => [e.cells[3].querySelector('button').title, e.cells[0].textContent])"))
    stacks = [(page_data(page)["strings"][functions[1]], live) for functions, live in stacks_of(page) if len(functions) == 3]
    instances = {name: live for name, live in stacks if name.startswith("box::")}
    page.tab("sites")
    before = page.text("#sites .caption .note")
    page.in_menu("#merge").click()
    page.tab("functions")
    page.press("box::", "#function-table .caption input")
    name = f"box::Box<...>::fill ({len(instances)} template instances)"
    page.wait(lambda: list(rows().items()) == [(name, say_bytes(sum(instances.values())))])
    page.click("#function-table td.name .one-line .fold")
    expect("what is between", page.text("#sandwich-middle .whole-name"), name)
    expect("their one callee", beside_root(page, "#callees-canvas", Keys.ARROW_DOWN), [f"plain_one(int): {say_bytes(sum(instances.values()))}, 100.0 %"])
    page.tab("sites")
    expect("their stacks are one", int(before.split(" ")[0]) - int(page.text("#sites .caption .note").split(" ")[0]), len(instances) - 1)
    address = page.run("return location.href")
    expect("in the address", "merge=1" in address, True)
    page.back()
    page.back()
    page.back()
    page.back()
    page.wait(lambda: not page.one("#merge").is_selected())
    page.tab("functions")
    page.wait(lambda: rows() == {name: say_bytes(live) for name, live in instances.items()})
    page.driver.get(address)
    page.drawn()
    page.wait(lambda: page.one("#merge").is_selected())
    page.in_menu("#merge").click()
    page.run("document.querySelectorAll('.caption input').forEach(e => { e.value = ''; e.oninput(); })")


def check_odd_names(page):
    """A name of 20,000 characters and one that turns the direction of text: neither moves what stands beside it."""
    expect("direction of text", page.run("return /[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.documentElement.textContent)"), False)
    page.tab("sites")
    page.wait(lambda: page.all("#sites tbody tr"))
    expect("rows of a table", page.run("return Math.max(...[...document.querySelectorAll('#sites tbody tr')].map(e => e.offsetHeight))") < 120, True)
    page.tab("flame")
    if page.all("input[name=direction]")[1].is_selected() is False:
        page.click("input[name=direction]", 1)
    canvas = page.one("#canvas")
    page.run("arguments[0].scrollIntoView()", canvas)
    long = page.run("""
        const canvas = document.getElementById('canvas'), box = canvas.getBoundingClientRect(), tip = document.getElementById('tip');
        for (let x = 1; x < box.width; x += 2) {
            canvas.dispatchEvent(new MouseEvent('mousemove', {clientX: box.left + x, clientY: box.top + 28, bubbles: true}));
            if (tip.textContent.includes('very_long_name')) return [tip.offsetHeight, tip.scrollWidth - tip.clientWidth, innerHeight, tip.textContent];
        }
        return null""")
    expect("the long name in the graph", long is not None, True)
    expect("its tooltip", (long[0] < long[2] / 3, long[1] <= 0, long[3].count("very_long_name") < 20), (True, True, True))
    down = page.all("input[name=direction]")[0]
    page.run("arguments[0].scrollIntoView()", down)
    down.click()


def check_alike(page):
    """Two functions that shortened names make alike, and two threads of one name."""
    legend = page.texts("#strip-legend button")
    expect("entries of the legend", (legend[:2], len(legend) - len(set(legend))), (["box::Box<int>::run(int)", "box::Box<char>::run(int)"], 0))
    page.tab("sites")
    labels = page.run("return [...document.querySelectorAll('#sites td.origin span')].map(e => e.textContent.split(' ').slice(0, 2).join(' '))")
    expect("names of threads", set(labels), {"worker 4711", "worker 4712"})
    check_quiet(page)
