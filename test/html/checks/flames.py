"""The flame graph: zoom, its part of the width, the minimap above it, what is drawn."""
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from checks.looks import fingers, graph_title, labels_drawn, page_data, part_of
from checks.words import expect


def check_flame(page):
    page.tab("flame")
    canvas = page.one("#canvas")
    whole = page.text("#flame-words")
    height = canvas.size["height"]
    page.picture("flame")
    # The third row, at the left: the widest frame there.
    page.run("arguments[0].scrollIntoView()", canvas)
    page.tip(canvas, 20, 48)
    page.point(canvas, 20, 48, click=True)
    expect("zoomed in", page.one("#flame-back").is_enabled(), True)
    page.picture("zoomed")
    page.click("#flame-back")
    expect("zoomed back", page.text("#flame-words"), whole)
    for key in (Keys.ARROW_DOWN, Keys.ARROW_DOWN):
        page.press(key, "#canvas")
    said = page.text("#flame-words")
    expect("the keyboard names a frame", said != whole and "%" in said, True)
    page.press(Keys.ENTER, "#canvas")
    expect("Enter zooms", page.one("#flame-back").is_enabled(), True)
    page.press(Keys.BACKSPACE, "#canvas")
    expect("Backspace goes back", page.one("#flame-back").is_enabled(), False)
    page.click("input[name=direction]", 1)
    expect("the other direction is of the same weight", page.text("#flame-words"), whole)
    expect("and looks different", page.one("#canvas").size["height"] > 0 and height > 0, True)
    page.picture("up")


def check_unknown(page):
    """Half of the graph is by stacks that nobody knows: that is said in it, beside it and over it."""
    page.tab("flame")
    expect("said above the graph", "50.0 % by unknown stacks" in graph_title(page), True)
    canvas = page.one("#canvas")
    page.run("arguments[0].scrollIntoView()", canvas)
    expect("its label", "(stack unknown)" in labels_drawn(page), True)
    said = [page.tip(canvas, canvas.size["width"] * share, 28) for share in (0.25, 0.75)]
    expect("its tooltip", sum("(stack unknown)" in text and "No frame of these stacks" in text for text in said), 1)


def check_zoom_kept(page):
    """What was zoomed in on stays so when figures change, and comes back by the browser's buttons and by a link."""
    page.tab("flame")
    whole = graph_title(page)
    for key in (Keys.HOME, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_DOWN):
        page.press(key, "#canvas")
    page.press(Keys.ENTER, "#canvas")
    zoomed = graph_title(page)
    expect("zoomed in", zoomed != whole and page.one("#flame-back").is_enabled(), True)
    page.choose("#metric", "allocations")
    expect("zoomed in on other figures", page.one("#flame-back").is_enabled(), True)
    page.choose("#metric", "live")
    expect("and on those of before", graph_title(page), zoomed)
    page.in_menu("#noise").click()
    page.in_menu("#noise").click()
    expect("and without library noise", graph_title(page), zoomed)
    page.tab("modules")
    page.tab("flame")
    expect("and after another view", graph_title(page), zoomed)
    address = page.run("return location.href")
    page.click("#flame-root")
    expect("the whole graph", graph_title(page), whole)
    page.back()
    page.wait(lambda: graph_title(page) == zoomed)
    page.forward()
    page.wait(lambda: graph_title(page) == whole)
    page.back()
    page.wait(lambda: graph_title(page) == zoomed)
    page.choose("#metric", "allocations")
    page.back()
    page.wait(lambda: page.one("#metric").get_property("value") == "live" and graph_title(page) == zoomed)
    page.open(address)
    expect("a link shows the same", (graph_title(page), page.shown("#flame")), (zoomed, True))
    page.driver.get(address.split("#", maxsplit=1)[0] + "#nothing&metric=nonsense&from=x&to=-1&down=1.x.99999_&function=1e9&find=%zz")
    page.driver.refresh()
    page.drawn()
    expect("an address of nonsense", (page.shown("#overview"), page.one("#metric").get_property("value")), (True, "live"))
    page.run("history.replaceState(null, '', '#')")
    page.driver.refresh()
    page.drawn()
    page.resize(1280, 500)
    page.driver.refresh()
    page.wait(lambda: page.run("return document.readyState === 'complete' && document.documentElement.dataset.ready") == "yes")
    expect("it begins at the top", page.run("return [scrollY, document.documentElement.scrollHeight > innerHeight]"), [0, True])
    page.resize()


def check_wheel(page):
    """The wheel with Ctrl, keys and two fingers widen the graph; a drag moves it; all that is in the address."""
    page.tab("flame")
    canvas = page.one("#canvas")
    page.run("arguments[0].scrollIntoView()", canvas)
    width = canvas.size["width"]

    def frame_at(share):
        return page.tip(canvas, width * share, 28).split(":")[0]
    left, right = frame_at(0.25), frame_at(0.75)
    expect("two frames", left != right, True)
    turn = """
        const canvas = arguments[0], box = canvas.getBoundingClientRect();
        canvas.dispatchEvent(new WheelEvent('wheel', {clientX: box.left, clientY: box.top + 28, deltaY: -263, ctrlKey: true, bubbles: true, cancelable: true}))"""
    page.run(turn, canvas)
    expect("the left one is wider", (frame_at(0.25), frame_at(0.75)), (left, left))
    page.point(canvas, 0.9 * width, 28)
    ActionChains(page.driver, duration=0).click_and_hold().move_by_offset(-width // 2, 0).move_by_offset(-width // 4, 0).release().perform()
    page.wait(lambda: part_of(page)[0] > 0.1)
    expect("a drag does not zoom", "&down=" in page.run("return location.hash"), False)
    expect("it moves", frame_at(0.9), right)
    page.tab("sites")
    page.tab("flame")
    expect("as wide after another view", frame_at(0.9), right)
    page.back()
    page.back()
    page.back()
    page.wait(lambda: part_of(page) == [0, 1])
    expect("as wide as before", (frame_at(0.25), frame_at(0.75)), (left, right))
    page.press("+", "#canvas")
    page.wait(lambda: part_of(page)[1] - part_of(page)[0] < 0.7)
    page.run(turn, canvas)
    page.run(turn, canvas)
    page.wait(lambda: part_of(page)[1] < 0.5)
    # What has the focus is moved to where it can be seen.
    for key in (Keys.HOME, Keys.ARROW_DOWN, Keys.ARROW_RIGHT):
        page.press(key, "#canvas")
    page.wait(lambda: part_of(page)[0] > 0.5)
    page.press("-", "#canvas")
    page.click("#flame-root")
    expect("the whole graph", (part_of(page), frame_at(0.25), frame_at(0.75)), ([0, 1], left, right))
    fingers(page, canvas, [(0.4 * width, 28), (0.6 * width, 28)], [(0.3 * width, 28), (0.7 * width, 28)], [(0.2 * width, 28), (0.8 * width, 28)])
    page.wait(lambda: 0.3 < part_of(page)[1] - part_of(page)[0] < 0.5)
    begin = part_of(page)[0]
    fingers(page, canvas, [(0.8 * width, 28)], [(0.7 * width, 28)], [(0.5 * width, 28)])
    page.wait(lambda: part_of(page)[0] > begin + 0.05)
    expect("fingers do not zoom", "&down=" in page.run("return location.hash"), False)
    page.click("#flame-root")


def check_minimap(page):
    """The strip above the graph has the whole of it; its window moves by mouse and finger, also beyond what was zoomed in on."""
    page.tab("flame")
    canvas, strip = page.one("#canvas"), page.one("#minimap")

    def seen():
        return page.run("return getComputedStyle(document.getElementById('minimap')).visibility") == "visible"
    expect("nothing to say of the whole", seen(), False)
    gap = "return document.getElementById('canvas').getBoundingClientRect().top - Math.max(...['flame-words', 'flame-legend'].map(id => document.getElementById(id).getBoundingClientRect().bottom))"
    expect("no empty band above the graph", page.run(gap) < 12, True)
    place = canvas.location
    page.run("arguments[0].scrollIntoView({block: 'center'})", strip)
    width, whole_strip = canvas.size["width"], strip.size["width"]
    whole = [page.tip(canvas, width * share, 28) for share in (0.25, 0.75)]
    page.point(canvas, width * 0.25, 28, click=True)
    page.wait(lambda: "&down=" in page.run("return location.hash"))
    zoomed = page.run("return location.hash")
    expect("zoomed in on a half, and nothing has moved", (seen(), canvas.location), (True, place))
    half = 0 if page.tip(canvas, width * 0.5, 28) == whole[0] else 1
    y = strip.size["height"] / 2

    def pull(begin, end):
        page.point(strip, whole_strip * begin, y)
        ActionChains(page.driver, duration=0).click_and_hold().move_by_offset(int(whole_strip * (end - begin) / 2), 0) \
            .move_by_offset(int(whole_strip * (end - begin) / 2), 0).release().perform()
    # To the middle: of both halves.
    pull(0.25 + half / 2, 0.5)
    page.wait(lambda: all(abs(edge - wanted) < 0.01 for edge, wanted in zip(part_of(page), (0.25, 0.75))))
    expect("no longer zoomed in", "&down=" in page.run("return location.hash"), False)
    expect("both can be seen", [page.tip(canvas, width * share, 28) for share in (0.25, 0.75)], whole)
    fingers(page, strip, [(whole_strip * 0.5, y)], [(whole_strip * 0.6, y)], [(whole_strip * 0.9, y)])
    page.wait(lambda: part_of(page)[1] == 1)
    page.point(strip, whole_strip * 0.3, y, click=True)
    page.wait(lambda: abs(sum(part_of(page)) / 2 - 0.3) < 0.01)
    page.back()
    page.wait(lambda: page.run("return location.hash") == zoomed)
    expect("zoomed in again", seen(), True)
    page.click("#flame-root")
    expect("hidden again", seen(), False)


def check_large(page):
    """The largest graph that is asked for: a redraw draws what can be seen, and no view has a row for each function."""
    page.tab("flame")
    drawn = page.run("""
        const canvas = document.getElementById('canvas'), counts = {clearRect: 0, fillRect: 0, fillText: 0}, redraws = [];
        for (const name in counts) {
            const real = CanvasRenderingContext2D.prototype[name];
            CanvasRenderingContext2D.prototype[name] = function (...words) { counts[name]++; return real.apply(this, words); };
        }
        for (let i = 0; i < 15; i++) {
            for (const name in counts) counts[name] = 0;
            canvas.dispatchEvent(new KeyboardEvent('keydown', {key: i % 2 ? 'ArrowUp' : 'ArrowDown', bubbles: true}));
            redraws.push({...counts});
        }
        return redraws""")
    nodes, rows = len(page_data(page)["nodes"]["parent"]), page.one("#canvas").size["height"] / 19
    for redraw in drawn:
        expect("times that a key draws the graph", redraw["clearRect"], 1)
        # A frame is drawn from three quarters of a pixel on, and has a name from 34 on.
        width = page.one("#canvas").size["width"]
        expect("frames that are drawn are seen", 0 < redraw["fillRect"] <= min(rows * width / 0.75, nodes / 4), True)
        expect("names have room", 0 < redraw["fillText"] <= rows * width / 34, True)
    for tab in ("overview", "sites", "functions", "modules", "threads", "sizes", "lifetimes"):
        page.tab(tab)
    expect("elements of the page", page.run("return document.querySelectorAll('*').length") < 10000, True)
