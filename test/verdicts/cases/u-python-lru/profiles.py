"""A profile service with an lru_cache that is full."""
import functools
import sys
import time


@functools.lru_cache(maxsize=3000)
def load_profile(user):
    return bytes([user % 256]) * (4000 + user % 1000)


for user in range(4000):
    load_profile(user)
print("ready", flush=True)
next_time = time.monotonic()
user = 4000
while True:
    for _ in range(10):
        load_profile(user)
        user += 1
    if user % 1000 == 0:
        print(load_profile.cache_info(), file=sys.stderr, flush=True)
    next_time += 0.02
    time.sleep(max(0, next_time - time.monotonic()))
