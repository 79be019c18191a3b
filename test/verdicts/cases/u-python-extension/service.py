"""A service that decodes frames with a C extension."""
import sys
import time

sys.path.insert(0, sys.argv[1])
import frames  # noqa: E402

packet = bytes(6000)
decoded = 0
print("ready", flush=True)
next_time = time.monotonic()
for tick in range(10 ** 9):
    decoded += len(frames.decode(packet))
    words = [str(number) * 3 for number in range(200)]
    if tick % 100 == 0:
        print(decoded, "frames,", decoded * 1533, "bytes,", len(words), "words", file=sys.stderr, flush=True)
    next_time += 0.02
    time.sleep(max(0, next_time - time.monotonic()))
