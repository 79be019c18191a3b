"""What a trace keeps of parts of the time, and what its page does not pretend to know."""
from checks.looks import drag, fields, legend_at, page_data, peak_tile, text_of
from checks.words import expect, numbers, say_bytes


def check_highest(page, parts):
    """parts: reports, each of one step of the page, one of them with a peak that no end of a step shows."""
    whole = page_data(page)
    edges, totals = whole["buckets"], whole["totals"]
    peak = max(parts, key=lambda part: part["totals"]["peak_bytes"])
    expect("a peak between the ends", totals["peak_bytes"] > 100 * max(whole["timeline"]["live"]), True)
    if page.run("return typeof uPlot !== 'undefined'"):
        # The pointer is at a whole pixel, and the peak may be at the edge of what is drawn of its time: in the middle.
        ends = [0.0] + (whole["moments"]["seconds"] if whole["moments"] else edges[1:])
        after = next(i for i, end in enumerate(ends) if end >= totals["peak_seconds"])
        at = (ends[after - 1] + ends[after]) / 2 / edges[-1]
        expect("the peak in the plot", legend_at(page, 0, at)["highest"], say_bytes(totals["peak_bytes"]))
        expect("live beside it", legend_at(page, 0, at)["live"] != say_bytes(totals["peak_bytes"]), True)
        for beside in (after - 2, after + 2):
            at = (ends[beside - 1] + ends[beside]) / 2 / edges[-1]
            expect("one cell of it alone", legend_at(page, 0, at)["highest"] != say_bytes(totals["peak_bytes"]), True)
    page.tab("overview")
    for part in parts:
        fields(page, part["window"]["from_seconds"], part["window"]["to_seconds"])
        name, value = peak_tile(page)
        expect(f"peak of the step to {part['window']['to_seconds']} s", value, say_bytes(part["totals"]["peak_bytes"]))
        expect("its time", name, f"Peak, at {part['totals']['peak_seconds']:.2f} s")
        if part is peak:
            expect("what stacks held is of a step's end", "are known at the ends of steps" in page.text("#findings"), True)
    page.press("r")


def check_no_part(page, why):
    """Where no part of the time can be chosen the page says so, and nothing pretends to choose one."""
    said = page.text("#range-words")
    expect("why there is no part", said.startswith("No window can be selected: ") and why in said, True)
    expect("fields are off", [page.one(f"#{name}").is_enabled() for name in ("from", "to", "all-time")], [False] * 3)
    before = page.tiles()
    drag(page)
    expect("a drag marks nothing", page.shown("#strip-window"), False)
    expect("and changes nothing", (page.tiles(), page.text("#range-words")), (before, said))
    if page.run("return typeof uPlot !== 'undefined'"):
        page.tab("plots")
        drag(page, "#plots .u-over")
        expect("nor does one over a plot", page.run("return [...document.querySelectorAll('#plots .u-select')].every(e => !e.offsetWidth)"), True)
        expect("allocations a second are drawn", legend_at(page, 1, 0.5)["allocations a second"] != "–", True)
        page.tab("overview")


def check_sampled(page):
    check_no_part(page, "estimated")
    expect("temporary allocations", page.tiles()["Temporary"], "–\nnot known when sampled")
    expect("cannot be chosen", page.one("#metric option[value=temporary]").is_enabled(), False)
    page.tab("plots")
    expect("are not drawn", "temporary" in page.text("#plots"), False)
    for tab in ("threads", "sites", "modules"):
        page.tab(tab)
        expect(f"temporary allocations of {tab}", set(text_of(page, f"#{tab}", 6 if tab == "threads" else 5)), {"–"})


def check_bounded(page, report):
    """Of what was given up there are sums: one step. report: of the kept part, from its first edge to a later one."""
    whole = page_data(page)
    edges, first = whole["buckets"], whole["buckets"][1]
    expect("given up", first, whole["capture"]["single_events_from_seconds"])
    expect("a part can be chosen", page.text("#range-words"), "Drag over the timeline to select a window.")
    words = page.text("#plots-words")
    expect("words for the rest", words.startswith(f"Until {first:.2f} s only sums are kept: "), True)
    if page.run("return typeof uPlot !== 'undefined'"):
        before, after = (first / edges[-1] * 0.5, (first / edges[-1] + 1) / 2)
        expect("no rate before", legend_at(page, 1, before)["allocations a second"], "–")
        expect("a rate after", legend_at(page, 1, after)["allocations a second"] not in ("–", "0"), True)
        expect("no highest before", legend_at(page, 0, before)["highest"], "–")
        expect("a highest after", legend_at(page, 0, after)["highest"] != "–", True)
        expect("live before", legend_at(page, 0, before)["live"] not in ("–", "0 B"), True)
    expect("something was live in each step", min(whole["highest"]["bytes"]) > 0, True)
    page.tab("threads")
    expect("at the peak, of threads", set(text_of(page, "#threads", 2)), {"–"})
    expect("what threads are of", f"from {first:.2f} s on" in page.text("#threads .caption"), True)
    page.tab("overview")
    fields(page, report["window"]["from_seconds"], report["window"]["to_seconds"])
    totals, tiles = report["totals"], page.tiles()
    expect("allocations of the part", tiles["Allocations"], f"{totals['allocations']:,}")
    expect("live at its end", tiles["Live at the end"], say_bytes(totals["live_bytes"]))
    expect("its peak", peak_tile(page)[1], say_bytes(totals["peak_bytes"]))
    page.press("r")
    expect("the whole", page.tiles()["Allocations"], f"{whole['totals']['allocations']:,}")


def check_rates(page):
    """All that came in a moment is no rate: the first interval is of a microsecond, with a thousand allocations."""
    moments = page_data(page)["moments"]
    expect("a short interval", (moments["seconds"][0], moments["allocations"][0]), (1e-6, 1000))
    if page.run("return typeof uPlot !== 'undefined'"):
        rate = numbers([legend_at(page, 1, 0)["allocations a second"]])
        expect("its rate is that of more", rate, round((1000 + moments["allocations"][1]) / moments["seconds"][1]))


def check_pages(page):
    """Of touched pages: what the change of RSS is made of, and nothing of what only blocks have."""
    data, tiles = page_data(page), page.tiles()
    totals, rss = data["totals"], [value for value in data["timeline"]["rss"] if value is not None]
    change = rss[-1] - rss[0]

    def signed(value):
        return ("+" if value > 0 else "−" if value < 0 else "") + say_bytes(value)
    expect("growth", page.text("#growth-of-pages"),
           f"RSS {signed(change)}: these pages {signed(totals['live_bytes'])}, older ones that were returned "
           f"{signed(-totals['foreign_freed_bytes'])}, files and what is not known "
           f"{signed(change - totals['live_bytes'] + totals['foreign_freed_bytes'])}.")
    expect("new pages", tiles["New pages"], signed(totals["live_bytes"]))
    expect("what pages have none of", [name for name in ("Growth", "Temporary") if name in tiles], [])
    page.tab("plots")
    expect("nor in the plots", "temporary" in page.text("#plots"), False)
    expect("nor to choose", page.all("#metric option[value=temporary]"), [])
    for tab in ("sites", "functions", "threads", "modules"):
        page.tab(tab)
        expect(f"nor in {tab}", "temporary" in page.text(f"#{tab}").lower(), False)
