"""Indexes pages by an extension that splits their text."""
import os
import signal
import sys
import time

sys.path.insert(0, os.environ["WORK"])
import tokenizer

ended = False
counts = {}


def on_term(*_):
    global ended
    ended = True


def index_page(number):
    words = [b"word%d" % (number % 50 + i) for i in range(30)]
    words.insert(7, b"data:image/png;base64," + b"%06d" % number * 200)
    for token in tokenizer.tokenize(b" ".join(words)):
        if len(token) < 100:
            counts[token] = counts.get(token, 0) + 1


def main():
    signal.signal(signal.SIGTERM, on_term)
    start = time.monotonic()
    number = 0
    while not ended:
        index_page(number)
        number += 1
        if number == 300:
            print("ready", flush=True)
        wait = start + number * 0.004 - time.monotonic()
        if wait > 0:
            time.sleep(wait)
    print(f"{number} pages, {tokenizer.forgotten()} bytes of tokens never freed", file=sys.stderr)


main()
