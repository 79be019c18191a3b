"""Hands frames to another process by shared memory. Segments of frames that were handed on are never unlinked."""
import os
import signal
import sys
import time
from multiprocessing import shared_memory

ended = False
segments = []


def on_term(*_):
    global ended
    ended = True


def publish_frame(number):
    segment = shared_memory.SharedMemory(f"frame-{os.getpid()}-{number}", create=True, size=640 * 480)
    segment.buf[:] = bytes([number % 256]) * (640 * 480)
    segments.append(segment)
    return segment.name


def main():
    signal.signal(signal.SIGTERM, on_term)
    start = time.monotonic()
    number = 0
    while not ended:
        publish_frame(number)
        number += 1
        if number == 10:
            print("ready", flush=True)
        wait = start + number * 0.1 - time.monotonic()
        if wait > 0:
            time.sleep(wait)
    print(f"{len(segments)} segments of {640 * 480} bytes", file=sys.stderr)
    for segment in segments:
        segment.close()
        segment.unlink()


main()
