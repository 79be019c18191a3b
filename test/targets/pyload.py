"""Python at work: collections, strings, compression, with a digest that has to come out the same.

Commands on stdin: "go" and "hold" start and stop the work; "leak N" keeps N bytearrays of 20000 bytes;
"count" answers as JSON; "quit" ends with 0 if every digest was right.
"""

import hashlib
import json
import os
import sys
import threading
import zlib

BLOCK_BYTES = 20000
kept = []
running = threading.Event()
over = threading.Event()
rounds = 0
wrong = 0


def round_digest():
    table = {}
    for i in range(300):
        table.setdefault(f"key {i * 7919 % 101}", []).append("value " * (i % 40))
    text = json.dumps(table, sort_keys=True).encode()
    packed = zlib.compress(text, 6)
    if zlib.decompress(packed) != text:
        return "a stream that is not what went in"
    return hashlib.sha256(text).hexdigest()


def work(expected):
    global rounds, wrong
    while not over.is_set():
        if not running.wait(0.05):
            continue
        if round_digest() != expected:
            wrong += 1
        rounds += 1


def keep_bytearrays(count):
    for _ in range(count):
        kept.append(bytearray(BLOCK_BYTES))


def main():
    # Both threads work within any few milliseconds that somebody looks at.
    sys.setswitchinterval(0.0005)
    expected = round_digest()
    threads = [threading.Thread(target=work, args=(expected,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    print(f"ready {os.getpid()}", flush=True)
    for line in sys.stdin:
        word, _, number = line.strip().partition(" ")
        if word == "go":
            running.set()
            print("going", flush=True)
        elif word == "hold":
            running.clear()
            print("held", flush=True)
        elif word == "leak":
            keep_bytearrays(int(number))
            print("leaked", flush=True)
        elif word == "count":
            print(json.dumps({"kept": len(kept), "block_bytes": BLOCK_BYTES, "rounds": rounds, "wrong": wrong}),
                  flush=True)
        elif word == "quit":
            break
        else:
            sys.exit(f"broken: unknown command {line!r}")
    over.set()
    for thread in threads:
        thread.join()
    sys.exit(70 if wrong or any(any(block) for block in kept) else 0)


main()
