"""What can be seen in a page: its figures, tables, graphs and timeline."""
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

import page_figures


def page_data(page, part="data"):
    return page_figures.unpack(page.run("return document.getElementById(arguments[0]).textContent", part))


def table_sum(page, panel, column):
    """All rows, from what the page computed, not from what is drawn."""
    return page.run("""
        const rows = [...document.querySelectorAll(arguments[0] + ' tbody tr')];
        return rows.reduce((sum, row) => sum + Number(row.cells[arguments[1]].textContent.replace(/[,+]/g, '')), 0);
        """, panel, column)


def text_of(page, panel, column):
    """A column of all rows: tables show the first ones until they are asked for more."""
    while page.run("""
            const more = [...document.querySelectorAll(arguments[0] + ' > button')].find(b => !b.hidden);
            if (more) more.click();
            return !!more""", panel):
        pass
    return page.run("return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map(row => row.cells[arguments[1]].textContent)",
                    panel, column)


def rows_named(page, panel, columns):
    """Of each row the innermost function and some other cells."""
    return page.run("""
        return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map(row =>
            [row.querySelector('td.name button').textContent, ...arguments[1].map(column => row.cells[column].textContent)])""", panel, columns)


def rows_by_state(page):
    """The names of the innermost functions of the stacks, by what the table says of them."""
    return sorted(map(tuple, page.run("""
        return [...document.querySelectorAll('#sites tbody tr')].map(row =>
            [row.cells[3].textContent, row.querySelector('td.name button').textContent])""")))


def legend_at(page, plot, share):
    """What a plot's legend says when the pointer is at that share of its width."""
    page.tab("plots")
    over = page.all("#plots .u-over")[plot]
    page.run("arguments[0].scrollIntoView({block: 'center'})", over)
    page.point(over, over.size["width"] * share, over.size["height"] / 2)
    rows = page.run("""return [...document.querySelectorAll('#plots .uplot')[arguments[0]].querySelectorAll('.u-legend .u-series')]
        .map(row => [row.querySelector('.u-label').textContent, row.querySelector('.u-value').textContent])""", plot)
    return dict(rows)


def peak_tile(page):
    return [(name, value) for name, value in page.tiles().items() if name.startswith("Peak")][0]


def fields(page, begin, end):
    page.press("r")
    for name, value in (("to", end), ("from", begin)):
        page.run("const f = document.getElementById(arguments[0]); f.value = arguments[1]; f.onchange()", name, value)


def chosen_range(page):
    return page.run("return ['from', 'to'].map(id => document.getElementById(id).value)")


def computed(page):
    return page.run("return performance.getEntriesByName('limpet-computed').length")


def drag(page, selector="#strip"):
    over = page.one(selector)
    width = over.size["width"]
    ActionChains(page.driver, duration=0).move_to_element_with_offset(over, -width // 4, 0).click_and_hold() \
        .move_by_offset(width // 2, 0).release().perform()


def fingers(page, canvas, *places):
    """Touches at these places one after the other: each a list of (x, y) within the canvas."""
    left, top = page.run("const b = arguments[0].getBoundingClientRect(); return [b.left, b.top]", canvas)
    page.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
    for i, points in enumerate([*places, []]):
        page.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {
            "type": "touchEnd" if not points else "touchMove" if i else "touchStart",
            "touchPoints": [{"x": left + x, "y": top + y, "id": number} for number, (x, y) in enumerate(points)]})
    page.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def part_of(page, key="down"):
    """The part of the width that the address names."""
    words = [word for word in page.run("return location.hash").split("&") if word.startswith(f"{key}-part=")]
    return [float(edge) for edge in words[0].split("=")[1].split("_")] if words else [0, 1]


def graph_title(page):
    return page.text("#flame-words")


def drawn_texts(page, canvas):
    return page.run("""
        const real = CanvasRenderingContext2D.prototype.fillText, said = [];
        CanvasRenderingContext2D.prototype.fillText = function (text, x, y, most) {
            said.push([text, this.measureText(text).width, most]);
            return real.call(this, text, x, y, most);
        };
        document.getElementById(arguments[0]).dispatchEvent(new KeyboardEvent('keydown', {key: 'Home', bubbles: true}));
        CanvasRenderingContext2D.prototype.fillText = real;
        return said""", canvas)


def labels_drawn(page, canvas="canvas"):
    return [text for text, _, _ in drawn_texts(page, canvas)]


def squeezed(page, canvas="canvas"):
    """Kerning aside, the browser narrows what is wider than it may be."""
    return [text for text, wide, most in drawn_texts(page, canvas) if wide > most + 1]


def beside_root(page, canvas, inner):
    """What a graph says of the frames beside its root."""
    said = []
    for key in (Keys.HOME, inner):
        page.press(key, canvas)
    while graph_title(page) not in said:
        said.append(graph_title(page))
        page.press(Keys.ARROW_RIGHT, canvas)
    return said


def whole_graph(page):
    """Not below the timeline, which stays on top."""
    radio = page.one("input[name=direction]")
    page.run("arguments[0].scrollIntoView({block: 'center'})", radio)
    radio.click()


def colour_of(page, name):
    """The hue of a frame, where the canvas has it: 30 for what grew, 212 for what shrank."""
    return page.run("""
        const [red, green, blue] = document.getElementById('canvas').getContext('2d').getImageData(arguments[0], arguments[1], 1, 1).data;
        return red > blue + 20 ? 'orange' : blue > red + 20 ? 'blue' : 'grey'""", *name)


def frame_and_meaning(page, wanted):
    """The colour of the widest known frame beside the root, and that of the legend's entry of this number."""
    canvas = page.one("#canvas")
    page.run("arguments[0].scrollIntoView()", canvas)
    x = next(x for share in (0.1, 0.6) for x in [int(canvas.size["width"] * share)] if "(stack unknown)" not in page.tip(canvas, x, 28))
    return page.run("""
        const pixel = [...document.getElementById('canvas').getContext('2d').getImageData(arguments[0], 36, 1, 1).data].slice(0, 3);
        const swatch = document.querySelectorAll('#flame-legend .swatch')[arguments[1]];
        return [pixel, getComputedStyle(swatch).backgroundColor.match(/\\d+/g).map(Number)]""", x, wanted)


def stacks_of(page):
    """Of each stack: its functions, innermost first, and its live bytes at the end of the capture."""
    data, stacks = page_data(page), []
    parent, address = data["nodes"]["parent"], data["nodes"]["address"]
    for site in data["sites"]:
        node, functions = site["node"], []
        while node:
            functions += [data["frames"]["function"][frame] for frame in data["addresses"][address[node]]]
            node = parent[node]
        stacks.append((functions, sum(site["ab"]) - sum(site["fb"])))
    return stacks


def stacks_found(page):
    """In one go: the table is drawn anew while we look."""
    return page.run("return document.querySelector('#sites .caption .note').textContent.split(' ')[0]")
