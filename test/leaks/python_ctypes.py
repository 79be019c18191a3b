"""Blocks of malloc that an extension forgets, and others whose addresses a Python object holds as machine words."""
import ctypes
import os
import signal

libc = ctypes.CDLL(None)
KEPT = (ctypes.c_void_p * 20)()


def lose_blocks():
    # Without a result: a Python number would not hold the word, but its making would leave copies.
    libc.calloc.restype = None
    for _ in range(20):
        libc.calloc(1, 1000)


def keep_blocks():
    libc.posix_memalign.restype = None
    for i in range(20):
        libc.posix_memalign(ctypes.byref(KEPT, 8 * i), 16, 1016)


lose_blocks()
keep_blocks()
# What the calls left on the stack is written over.
sorted(list(range(1000)), key=lambda i: repr(i))
print("READY", os.getpid(), flush=True)
while True:
    signal.pause()
