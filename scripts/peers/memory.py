"""Prints the memory that a client costs a server.

Arguments: idle or unread, kind (http1, tls or http2), port, connections, the ids of the server's processes.

idle    bytes per connection that has fetched /page.html once and stays open
unread  KiB per connection that has requested /huge.html (20 MB) and does not read; over HTTP/2, 100 streams with windows
        for all of it

The first connections are not counted: buffers that all connections share come with them.
"""

import resource
import socket
import ssl
import sys
import time

workload, kind, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
processes = sys.argv[5:]
tls = ssl.create_default_context()
tls.check_hostname = False
tls.verify_mode = ssl.CERT_NONE


def memory():
    """Pss of all processes in bytes; Rss where the kernel has no Pss."""
    total = 0
    for process in processes:
        lines = dict(line.split(":", 1) for line in open(f"/proc/{process}/smaps_rollup") if "kB" in line)
        total += int(lines.get("Pss", lines["Rss"]).split()[0]) * 1024
    return total


def settled():
    """The memory once two readings, half a second apart, agree within 64 KiB."""
    before = memory()
    for _ in range(20):
        time.sleep(0.5)
        after = memory()
        if abs(after - before) <= 65536:
            break
        before = after
    return after


def receive(connection, until):
    received = b""
    while not until(received):
        part = connection.recv(65536)
        if not part:
            sys.exit("the server closes connections")
        received += part


def http2_request(path, streams, settings=b""):
    """Preface, settings, and a GET on each stream, whose fields are literals or of the static table."""
    fields = bytes([0x82, 0x86, 0x04, len(path)]) + path + b"\x41\x09localhost"
    request = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + len(settings).to_bytes(3, "big") + b"\4\0\0\0\0\0" + settings
    if settings:
        request += b"\0\0\4\x08\0\0\0\0\0" + (WINDOW - 65535).to_bytes(4, "big")
    for stream in range(1, 2 * streams, 2):
        request += len(fields).to_bytes(3, "big") + b"\x01\x05" + stream.to_bytes(4, "big") + fields
    return request


WINDOW = 2**31 - 1


def is_http2_answer(received):
    """Whether the last frame of stream 1 has come."""
    at = 0
    while len(received) >= at + 9:
        length, flags = int.from_bytes(received[at : at + 3], "big"), received[at + 4]
        if len(received) < at + 9 + length:
            return False
        if flags & 1 and received[at + 3] == 0:
            return True
        at += 9 + length
    return False


def connect():
    connection = socket.create_connection(("127.0.0.1", port), 30)
    if kind == "tls":
        connection = tls.wrap_socket(connection)
    if workload == "unread":
        ask = b"GET /huge.html HTTP/1.1\r\nHost: localhost\r\n\r\n"
        if kind == "http2":
            ask = http2_request(b"/huge.html", 100, b"\0\4" + WINDOW.to_bytes(4, "big"))
        connection.sendall(ask)
    elif kind == "http2":
        connection.sendall(http2_request(b"/page.html", 1))
        receive(connection, is_http2_answer)
        connection.sendall(b"\0\0\0\4\1\0\0\0\0")
    else:
        connection.sendall(b"GET /page.html HTTP/1.1\r\nHost: localhost\r\nUser-Agent: peers\r\nAccept: */*\r\n\r\n")
        receive(connection, lambda received: len(received.partition(b"\r\n\r\n")[2]) >= 10240)
    return connection


def check_open(connection):
    """Ends the script if the server has closed the connection: reads half of a file to its end or the connection's."""
    received = 0
    while received < 10_000_000:
        part = connection.recv(1 << 16)
        if not part:
            sys.exit("the server closes connections")
        received += len(part)


limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
connections = [connect() for _ in range(200 if workload == "idle" else 5)]
before = settled()
connections += [connect() for _ in range(count)]
after = settled()
if workload == "unread":
    check_open(connections[-1])
print(round((after - before) / count / (1 if workload == "idle" else 1024)))
