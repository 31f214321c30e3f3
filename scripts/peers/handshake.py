"""Load of new TLS connections with full handshakes: what wrk cannot send, because it resumes sessions.

Arguments: port, path, connections, seconds. As many processes as connections each open a connection to 127.0.0.1, fetch
the path and read until the server closes, again and again. No connection has a session to resume, and all are of TLS
1.3. Prints the line of report.lua; the response time is that from connecting to the end of the response.
"""

import multiprocessing
import socket
import ssl
import sys
import time

PATIENCE = 2.0
port, path, connections, seconds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
request = f"GET /{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
tls.check_hostname = False
tls.verify_mode = ssl.CERT_NONE
tls.minimum_version = ssl.TLSVersion.TLSv1_3


class Run:
    """What one client has seen: bytes, response times in microseconds, and errors by the names of report.lua."""

    def __init__(self):
        self.bytes = 0
        self.times = []
        self.errors = dict.fromkeys(["connect", "read", "write", "status", "timeout"], 0)

    def exchange(self):
        """One connection with one request; an error is counted instead of a response."""
        start, stage, connection = time.monotonic(), "connect", None
        try:
            connection = socket.create_connection(("127.0.0.1", port), PATIENCE)
            connection = tls.wrap_socket(connection)
            stage = "write"
            connection.sendall(request)
            stage = "read"
            received = b"".join(iter(lambda: connection.recv(65536), b""))
            if not received or connection.session_reused:
                raise ConnectionError
        except socket.timeout:
            self.errors["timeout"] += 1
        except OSError:
            self.errors[stage] += 1
        else:
            self.bytes += len(received)
            self.times.append((time.monotonic() - start) * 1e6)
            self.errors["status"] += not received.startswith(b"HTTP/1.1 200 ")
        finally:
            if connection:
                connection.close()


def client(end):
    run = Run()
    while time.monotonic() < end:
        run.exchange()
    return run


with multiprocessing.get_context("fork").Pool(connections) as pool:
    start = time.monotonic()
    runs = pool.map(client, [start + seconds] * connections, 1)
    duration = time.monotonic() - start
times = sorted(taken for run in runs for taken in run.times) or [0]
errors = [sum(run.errors[kind] for run in runs) for kind in runs[0].errors]
percentiles = [round(times[(len(times) - 1) * share // 100]) for share in (50, 99)]
count = sum(len(run.times) for run in runs)
print("peers", count, round(duration * 1e6), sum(run.bytes for run in runs), *percentiles, *errors)
