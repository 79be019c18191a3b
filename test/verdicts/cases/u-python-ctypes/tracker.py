"""Tracks vehicles with a C library by ctypes. With c_char_p the pointer is lost once it is a bytes object."""
import ctypes
import sys
import time

geo = ctypes.CDLL(sys.argv[1])
geo.geo_encode.argtypes = [ctypes.c_double, ctypes.c_double]
geo.geo_encode.restype = ctypes.c_char_p

positions = {}
encoded = 0


def encode_position(vehicle, latitude, longitude):
    global encoded
    text = geo.geo_encode(latitude, longitude)
    encoded += len(text) + 1
    positions[vehicle] = text


print("ready", flush=True)
next_time = time.monotonic()
for tick in range(10 ** 9):
    for vehicle in range(8):
        encode_position(vehicle, 47.0 + tick % 100 * 0.01, 8.0 + vehicle)
    if tick % 100 == 0:
        print(encoded, "bytes encoded", file=sys.stderr, flush=True)
    next_time += 0.02
    time.sleep(max(0, next_time - time.monotonic()))
