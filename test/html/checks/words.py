"""Words and figures as pages and reports say them."""
import sys
from decimal import Decimal, ROUND_HALF_UP

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

# As the text report says it, whose tests know these words.
ENDS = {"running": "still running", "stop": "ended by limpet stop", "duration": "ended after its duration",
        "target-exit": "ended when the target exited", "target-killed": "ended when the target was killed",
        "interrupt": "ended by interrupt", "collector-lost": "the collector died"}


def say_bytes(value):
    amount, unit = float(abs(value)), 0
    while amount >= 1024 and unit < 4:
        amount, unit = amount / 1024, unit + 1
    # As toFixed(): Python's own way takes what lies halfway, such as 81,152 bytes, to the even digit.
    digits = Decimal(1 if unit == 0 or amount >= 100 else "0.1")
    return f"{Decimal(amount).quantize(digits, ROUND_HALF_UP)} {UNITS[unit]}"


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"drive: {what}: {got!r} instead of {wanted!r}")


def numbers(texts):
    return sum(int(text.replace(",", "").replace("–", "0")) for text in texts)


def summed(pairs):
    sums = {}
    for key, value in pairs:
        sums[key] = sums.get(key, 0) + value
    return sums


STATES = ("grew", "shrank", "appeared", "vanished", "same")

METRIC_WORDS = {"live": "bytes live at the end", "growth": "growth", "allocated": "bytes allocated", "allocations": "allocations"}


def say_change(value, metric, per=""):
    amount = (f"{abs(value):,}" if metric == "allocations" else say_bytes(value)) + per
    return ("+" if value > 0 else "−" if value < 0 else "") + amount
