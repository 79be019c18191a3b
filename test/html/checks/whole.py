"""All that is looked at of a page of some kind."""
import re

from checks.comparisons import check_comparison
from checks.details import check_details, check_sandwich
from checks.finds import check_find, check_search, check_thread_names
from checks.flames import check_flame, check_minimap, check_unknown, check_wheel, check_zoom_kept
from checks.naming import check_name_steps, check_names, check_odd_names, check_series
from checks.origins import check_editor, check_origin
from checks.overview import check_overview, check_verdict
from checks.page import VIEWS, check_quiet, media
from checks.partial import check_bounded, check_highest, check_no_part, check_pages, check_rates, check_sampled
from checks.surroundings import check_hostile, check_manners, check_phone, check_print, check_surroundings
from checks.tables import check_filter, check_functions, check_lifetimes, check_rows, check_tables
from checks.timeline import check_drag_once, check_range, check_strip, check_touch
from checks.windows import check_two_windows
from checks.words import expect


def check_figures(page, report):
    check_overview(page, report)
    check_verdict(page, report)
    check_tables(page, report)


def check_capture(page, report, options):
    check_figures(page, report)
    check_rows(page, report)
    check_lifetimes(page, report)
    check_functions(page)
    if options.hostile or not options.figures:
        check_flame(page)
    if not options.figures:
        check_filter(page)
        check_find(page)
        check_range(page)
        check_manners(page)
        check_surroundings(page)


def check_two_captures(page, diff, options):
    check_comparison(page, diff)
    if not options.figures:
        check_manners(page)


def check_whole(page, report, options):
    """Full names, as hostile ones are not to be shortened."""
    if options.hostile:
        page.names("full")
    if report.get("format") == "limpet-diff":
        check_two_captures(page, report, options)
    else:
        check_capture(page, report, options)
    check_hostile(page, options.hostile)
    check_quiet(page)


def check_made(page):
    expect("names at first, as in the report", (page.one("#names").get_property("value"), "names=" in page.run("return location.hash")), ("templates", False))
    page.names("full")
    check_thread_names(page)
    check_origin(page)
    check_search(page)
    check_editor(page)
    check_names(page)
    check_name_steps(page)
    check_series(page)
    check_odd_names(page)
    check_drag_once(page)
    check_strip(page)
    check_two_windows(page)
    check_zoom_kept(page)
    check_touch(page)
    check_unknown(page)
    check_wheel(page)
    check_minimap(page)
    check_sandwich(page)
    check_details(page)
    check_phone(page)
    page.resize(1024, 900)
    page.tab("sites")
    page.wait(lambda: page.run("const box = document.querySelector('#sites .wide'); return box.scrollWidth <= box.clientWidth"))
    page.resize()
    check_print(page)
    for scheme in ("light", "dark") if page.pictures else ():
        media(page, colours=scheme)
        for width in (1440, 1024, 390):
            page.resize(width, 900)
            for tab in VIEWS:
                page.tab(tab)
                page.picture(f"{tab}-{width}-{scheme}")
    page.resize()
    check_quiet(page)


def check_unread(page, words):
    page.wait(lambda: re.search(words, page.text("body")))
    expect("nothing else is shown", page.one("main").is_displayed() if page.all("main") else False, False)


def check_flag(page, words):
    flags = page.texts(".flag")
    expect(f"a flag {words} of {flags}", any(re.match(words, text) for text in flags), True)


def check_compact(page):
    expect("what lines are", "lines between these are straight" in page.text("#plots-words"), True)


def check_compared(page):
    expect("temporary allocations", "– (not known when sampled)" in page.text("#about"), True)
    expect("cannot be compared", page.one("#metric option[value=temporary]").is_enabled(), False)


KEPT = {
    "highest": check_highest,
    "sampled": lambda page, _: check_sampled(page),
    "bounded": check_bounded,
    "one-step": lambda page, _: check_no_part(page, "shorter than one step"),
    "compared": lambda page, _: check_compared(page),
    "compact": lambda page, _: check_compact(page),
    "pages": lambda page, _: check_pages(page),
    "rates": lambda page, _: check_rates(page),
}


def check_kept(page, report, kind):
    KEPT[kind](page, report)
    page.picture(kind)
    check_quiet(page)
