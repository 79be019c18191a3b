"""A shop's back end that keeps every order of the day, and an index of its lines."""
import resource
import sys
import time


class Order:
    def __init__(self, number):
        self.number = number
        self.lines = [{"article": f"article-{number}-{line}", "price": number * 0.5 + line} for line in range(8)]
        self.total = sum(line["price"] for line in self.lines)


orders = {}
by_article = {}


def place_order(number):
    order = Order(number)
    orders[number] = order
    for line in order.lines:
        by_article[line["article"]] = (order.number, line["price"])


for number in range(2000):
    place_order(number)
print("ready", flush=True)
next_time = time.monotonic()
number = 2000
while True:
    for _ in range(10):
        place_order(number)
        number += 1
    if number % 1000 == 0:
        print(len(orders), "orders,", len(by_article), "articles", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "KiB", file=sys.stderr, flush=True)
    next_time += 0.02
    time.sleep(max(0, next_time - time.monotonic()))
