"""Clients that know the right answer to each request, over a Unix socket.

    client.py redis SOCKET [CONNECTIONS]         values, lists and hashes, read back and compared
    client.py http SOCKET DIRECTORY [CONNECTIONS]   the directory's files, byte for byte
    client.py postgres SOCKET [CONNECTIONS]      computed texts, and a counter that each adds to;
                                                 "reconnect" as a last word: a new session now and then

Speaks as test/targets/target.h says. Commands on stdin: "go" opens the connections and works; "hold"
finishes what is under way and closes them; "pid" (postgres) answers the process that serves the first
connection; "count" answers {"requests", "errors"}; "quit" ends with 0 if there were requests and all
answers were right. What was wrong is said on stderr.
"""

import hashlib
import json
import os
import random
import socket
import struct
import sys
import threading
import time

# A pause after so many requests leaves the machine to the server and to who watches it.
REQUESTS_AT_ONCE = 20
PAUSE_S = 0.004
REQUEST_LIMIT_S = 60 * int(os.environ.get("LIMPET_TEST_PATIENCE", 4))


class Wrong(Exception):
    pass


class Connection:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(REQUEST_LIMIT_S)
        self.socket.connect(path)
        self.buffer = b""

    def send(self, data):
        self.socket.sendall(data)

    def more(self):
        data = self.socket.recv(65536)
        if not data:
            raise Wrong("the server closed the connection")
        self.buffer += data

    def take(self, count):
        while len(self.buffer) < count:
            self.more()
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def line(self):
        while b"\r\n" not in self.buffer:
            self.more()
        data, self.buffer = self.buffer.split(b"\r\n", 1)
        return data

    def close(self):
        self.socket.close()


# ------------------------------------------------------------------ redis


class Redis:
    KEYS = 200

    def __init__(self, path, number, _):
        self.connection = Connection(path)
        self.random = random.Random(number)
        self.prefix = f"client{number}".encode()
        self.strings = {}
        self.length = 0
        self.call(b"DEL", self.prefix + b"list", self.prefix + b"hash",
                  *(self.prefix + b":%d" % i for i in range(self.KEYS)))

    def call(self, *words):
        self.connection.send(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        return self.answer()

    def answer(self):
        line = self.connection.line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.connection.take(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.answer() for _ in range(int(rest))]
        raise Wrong(f"redis answered {line!r}")

    def want(self, answer, *words):
        got = self.call(*words)
        if got != answer:
            raise Wrong(f"{words[0]!r}: {str(got)[:80]!r} instead of {str(answer)[:80]!r}")

    def request(self):
        key = self.prefix + b":%d" % self.random.randrange(self.KEYS)
        choice = self.random.randrange(6)
        if choice == 0:
            value = bytes([33 + self.random.randrange(90)]) * self.random.randrange(1, 6000)
            self.want(b"OK", b"SET", key, value)
            self.strings[key] = value
        elif choice == 1:
            self.want(self.strings.get(key), b"GET", key)
        elif choice == 2:
            self.want(1 if self.strings.pop(key, None) is not None else 0, b"DEL", key)
        elif choice == 3:
            self.length += 1
            self.want(self.length, b"RPUSH", self.prefix + b"list", b"%d" % self.length)
        elif choice == 4:
            self.want([b"%d" % (i + 1) for i in range(self.length)], b"LRANGE", self.prefix + b"list", b"0", b"-1")
            if self.length > 300:
                self.want(1, b"DEL", self.prefix + b"list")
                self.length = 0
        else:
            field, value = b"%d" % self.random.randrange(50), os.urandom(40)
            self.call(b"HSET", self.prefix + b"hash", field, value)
            self.want(value, b"HGET", self.prefix + b"hash", field)

    def close(self):
        self.connection.close()


# ------------------------------------------------------------------ HTTP


class Http:
    def __init__(self, path, number, words):
        self.path = path
        self.connection = Connection(path)
        self.random = random.Random(number)
        self.files = {}
        for name in sorted(os.listdir(words[0])):
            with open(os.path.join(words[0], name), "rb") as file:
                self.files[name] = file.read()

    def request(self):
        # A fifth of the requests end their connection.
        last = self.random.randrange(5) == 0
        name = self.random.choice(list(self.files))
        self.connection.send(f"GET /{name} HTTP/1.1\r\nHost: localhost\r\n"
                             f"Connection: {'close' if last else 'keep-alive'}\r\n\r\n".encode())
        status = self.connection.line()
        length = None
        while line := self.connection.line():
            field, _, value = line.partition(b":")
            if field.lower() == b"content-length":
                length = int(value)
        if status != b"HTTP/1.1 200 OK" or length is None:
            raise Wrong(f"{name}: {status!r}, length {length}")
        if self.connection.take(length) != self.files[name]:
            raise Wrong(f"{name}: another body")
        if last:
            self.connection.close()
            self.connection = Connection(self.path)

    def close(self):
        self.connection.close()


# ------------------------------------------------------------------ PostgreSQL, protocol 3


class Postgres:
    TEXTS = 400  # long enough to outgrow the blocks that a session keeps

    def __init__(self, path, number, words):
        self.path, self.number = path, number
        self.random = random.Random(number)
        self.reconnect = words[-1:] == ["reconnect"]
        self.connect()
        if self.ask(f"select count(*) from counters where id = {number}") != [["1"]]:
            raise Wrong("no counter")
        self.counter = int(self.ask(f"select value from counters where id = {number}")[0][0])

    def connect(self):
        self.connection = Connection(self.path)
        body = struct.pack("!I", 196608) + b"user\0tester\0database\0postgres\0\0"
        self.connection.send(struct.pack("!I", len(body) + 4) + body)
        self.pid = 0
        self.rows()

    def message(self):
        kind = self.connection.take(1)
        length = struct.unpack("!I", self.connection.take(4))[0]
        return kind, self.connection.take(length - 4)

    def rows(self):
        rows, problem = [], None
        while True:
            kind, body = self.message()
            if kind == b"D":
                row, at = [], 2
                for _ in range(struct.unpack_from("!H", body)[0]):
                    length = struct.unpack_from("!i", body, at)[0]
                    at += 4
                    row.append(None if length < 0 else body[at:at + length].decode())
                    at += max(length, 0)
                rows.append(row)
            elif kind == b"E":
                problem = body.replace(b"\0", b" ").decode(errors="replace")
                if problem.startswith("SFATAL"):
                    raise Wrong(problem)
            elif kind == b"K":
                self.pid = struct.unpack_from("!I", body)[0]
            elif kind == b"R" and struct.unpack_from("!I", body)[0] != 0:
                raise Wrong("the server wants a password")
            elif kind == b"Z":
                if problem:
                    raise Wrong(problem)
                return rows

    def ask(self, query):
        body = query.encode() + b"\0"
        self.connection.send(b"Q" + struct.pack("!I", len(body) + 4) + body)
        return self.rows()

    def request(self):
        choice = self.random.randrange(4)
        if choice == 0:
            first = self.random.randrange(1000)
            want = ",".join(hashlib.md5(str(first + i).encode()).hexdigest() for i in range(self.TEXTS))
            got = self.ask("select string_agg(md5((i)::text), ',' order by i) "
                           f"from generate_series({first}, {first + self.TEXTS - 1}) i")
            if got != [[want]]:
                raise Wrong("string_agg: another text")
        elif choice == 1:
            numbers = [self.random.randrange(1000000) for _ in range(50)]
            got = self.ask(f"select x from unnest(array{numbers}) x order by x desc")
            if got != [[str(x)] for x in sorted(numbers, reverse=True)]:
                raise Wrong("order by: another order")
        elif choice == 2:
            self.counter += 1
            got = self.ask(f"update counters set value = value + 1 where id = {self.number} returning value")
            if got != [[str(self.counter)]]:
                raise Wrong(f"the counter is {got} instead of {self.counter}")
        elif self.reconnect:
            self.close()
            self.connect()
        else:
            got = self.ask(f"select value from counters where id = {self.number}")
            if got != [[str(self.counter)]]:
                raise Wrong(f"the counter is {got} instead of {self.counter}")

    def close(self):
        self.connection.send(b"X" + struct.pack("!I", 4))
        # The server closes when its process has finished with us.
        while self.connection.socket.recv(4096):
            pass
        self.connection.close()


# ------------------------------------------------------------------ the work


KINDS = {"redis": Redis, "http": Http, "postgres": Postgres}
state = threading.Condition()
going = over = False
parked = 0
requests = errors = 0
sessions = {}


def complain(words):
    global errors
    with state:
        errors += 1
        if errors <= 10:
            print(f"client: {words}", file=sys.stderr, flush=True)


def session(kind, path, number, words):
    global requests
    done = 0
    try:
        client = kind(path, number, words)
        sessions[number] = client
        # At least one, however soon the next command comes.
        while True:
            client.request()
            done += 1
            if not going or over:
                break
            if done % REQUESTS_AT_ONCE == 0:
                time.sleep(PAUSE_S)
        client.close()
    except (OSError, Wrong, ValueError) as problem:
        complain(f"connection {number}: {problem}")
        time.sleep(0.1)
    with state:
        requests += done


def work(kind, path, number, words):
    global parked
    while True:
        with state:
            parked += 1
            state.notify_all()
            state.wait_for(lambda: going or over)
            parked -= 1
            state.notify_all()
        if over:
            return
        session(kind, path, number, words)


def main():
    global going, over
    kind, path, words = KINDS[sys.argv[1]], sys.argv[2], sys.argv[3:]
    numbers = [word for word in words if word.isdigit()]
    count = int(numbers[0]) if numbers else 2
    threads = [threading.Thread(target=work, args=(kind, path, i, words)) for i in range(count)]
    for thread in threads:
        thread.start()
    print(f"ready {os.getpid()}", flush=True)
    for line in sys.stdin:
        word = line.strip()
        if word == "go":
            with state:
                going = True
                state.notify_all()
                state.wait_for(lambda: parked == 0 or errors)
            print("going", flush=True)
        elif word == "hold":
            with state:
                going = False
                state.wait_for(lambda: parked == count)
            print("held", flush=True)
        elif word == "pid":
            while not getattr(sessions.get(0), "pid", 0) and not errors:
                time.sleep(0.01)
            print(f"pid {getattr(sessions.get(0), 'pid', 0)}", flush=True)
        elif word == "count":
            print(json.dumps({"requests": requests, "errors": errors}), flush=True)
        elif word == "quit":
            break
        else:
            sys.exit(f"broken: unknown command {line!r}")
    with state:
        over = True
        going = False
        state.notify_all()
    for thread in threads:
        thread.join()
    sys.exit(70 if errors or not requests else 0)


main()
