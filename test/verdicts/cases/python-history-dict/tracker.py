"""Tracks devices. Each position is appended to the history of its device, which is never cut."""
import signal
import sys
import time

ended = False
history = {}


def on_term(*_):
    global ended
    ended = True


class Position:
    __slots__ = ("latitude", "longitude", "at", "source")

    def __init__(self, number):
        self.latitude = 50 + number * 1e-5
        self.longitude = 8 + number * 1e-5
        self.at = float(number)
        self.source = f"gps of device {number % 300}"


def track(number):
    history.setdefault(number % 300, []).append(Position(number))


def summarize(number):
    recent = [f"{position.latitude:.3f}" for position in history[number % 300][-20:]]
    return ";".join(recent)


def main():
    signal.signal(signal.SIGTERM, on_term)
    start = time.monotonic()
    number = 0
    while not ended:
        for _ in range(50):
            track(number)
            number += 1
        summarize(number - 1)
        if number == 10000:
            print("ready", flush=True)
        wait = start + number * 0.0001 - time.monotonic()
        if wait > 0:
            time.sleep(wait)
    print(f"{number} positions kept, in blocks of pymalloc: {sys.getallocatedblocks()}", file=sys.stderr)


main()
