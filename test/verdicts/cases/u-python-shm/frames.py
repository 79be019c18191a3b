"""A camera that hands frames over in shared memory; the consumer that should unlink them has gone."""
import os
import signal
import sys
import time
from multiprocessing import shared_memory

frames = []


def publish(number):
    frame = shared_memory.SharedMemory(name=f"frame-{os.getpid()}-{number}", create=True, size=1 << 20)
    frame.buf[:] = bytes([number % 255 + 1]) * (1 << 20)
    frames.append(frame)


def stop(*_):
    for frame in frames:
        frame.close()
        frame.unlink()
    sys.exit(0)


signal.signal(signal.SIGTERM, stop)
for number in range(20):
    publish(number)
print("ready", flush=True)
next_time = time.monotonic()
for number in range(20, 2000):
    publish(number)
    if number % 20 == 0:
        print(len(frames), "frames of 1 MiB", file=sys.stderr, flush=True)
    next_time += 0.2
    time.sleep(max(0, next_time - time.monotonic()))
