"""Prints how many bytes of memory an idle connection costs a server.

Arguments: kind (http1, tls or http2), port, connections, the ids of the server's processes. Each connection has fetched
/page.html once and stays open. The first 200 are not counted: buffers that all connections share come with them.
"""

import resource
import socket
import ssl
import sys
import time

kind, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
processes = sys.argv[4:]
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


def http2_request():
    """Preface, settings, and a GET whose fields are literals or of the static table."""
    fields = bytes([0x82, 0x86]) + b"\x04\x0a/page.html" + b"\x41\x09localhost"
    head = len(fields).to_bytes(3, "big") + b"\x01\x05" + (1).to_bytes(4, "big")
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0" + head + fields


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
    if kind == "http2":
        connection.sendall(http2_request())
        receive(connection, is_http2_answer)
        connection.sendall(b"\0\0\0\4\1\0\0\0\0")
    else:
        connection.sendall(b"GET /page.html HTTP/1.1\r\nHost: localhost\r\nUser-Agent: peers\r\nAccept: */*\r\n\r\n")
        receive(connection, lambda received: len(received.partition(b"\r\n\r\n")[2]) >= 10240)
    return connection


limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
connections = [connect() for _ in range(200)]
before = settled()
connections += [connect() for _ in range(count)]
print(round((settled() - before) / count))
