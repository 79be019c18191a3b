"""A site whose pages a C library renders. The site copies each page and forgets the library's own."""
import ctypes
import os
import signal
import sys
import time

library = ctypes.CDLL(os.path.join(os.environ["WORK"], "librender.so"))
library.render_template.restype = ctypes.c_void_p
library.render_template.argtypes = (ctypes.c_char_p, ctypes.c_char_p)

TEMPLATE = b"Hello @, this is your page, @. " + b"Lorem ipsum dolor sit amet. " * 60
ended = False
cache = {}


def on_term(*_):
    global ended
    ended = True


def render(number):
    page = library.render_template(TEMPLATE, b"user %d" % number)
    return ctypes.string_at(page)  # and no release_page(page)


def main():
    signal.signal(signal.SIGTERM, on_term)
    lost = 0
    start = time.monotonic()
    number = 0
    while not ended:
        page = render(number)
        lost += len(page) + 1
        cache[number % 200] = page
        number += 1
        if number == 200:
            print("ready", flush=True)
        wait = start + number * 0.005 - time.monotonic()
        if wait > 0:
            time.sleep(wait)
    print(f"{number} pages, {lost} bytes of them lost", file=sys.stderr)


main()
