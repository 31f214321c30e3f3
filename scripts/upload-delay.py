#!/usr/bin/env python3
"""Uploads to a server on this machine through a proxy that delays both directions, like a distant client.

    scripts/upload-delay.py PORT [PATH [MILLISECONDS [BYTES]]]

Prints the seconds of an upload over HTTP/2 (prior knowledge) and over HTTP/1.1, with curl. MILLISECONDS is the round trip
(100), BYTES the length of the body (10000000), PATH the script that receives it (/). The proxy has no limit of bandwidth
and no slow start: what remains is the flow control of the protocol.
"""

import asyncio
import os
import sys
import tempfile


async def carry(reader, writer, delay):
    """Forwards what it reads, each piece `delay` seconds later."""
    pieces = asyncio.Queue()
    loop = asyncio.get_running_loop()

    async def send():
        while True:
            due, piece = await pieces.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not piece:
                break
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    sender = asyncio.create_task(send())
    try:
        while True:
            piece = await reader.read(1 << 16)
            pieces.put_nowait((loop.time() + delay, piece))
            if not piece:
                break
        await sender
    except (OSError, asyncio.CancelledError):
        sender.cancel()


async def main(port, path, milliseconds, length):
    async def serve(reader, writer):
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        both = carry(reader, far_writer, milliseconds / 2000), carry(far_reader, writer, milliseconds / 2000)
        await asyncio.gather(*both, return_exceptions=True)
        writer.close()
        far_writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    near = server.sockets[0].getsockname()[1]
    with tempfile.NamedTemporaryFile() as body:
        os.truncate(body.name, length)
        for name, option in (("HTTP/2", "--http2-prior-knowledge"), ("HTTP/1.1", "--http1.1")):
            words = ["curl", "-sS", "-m", "60", option, "-o", "/dev/null", "-w", "%{http_code} %{time_total}"]
            words += ["-X", "PUT", "-H", "Expect:", "-H", "Content-Type: application/octet-stream"]
            words += ["--data-binary", "@" + body.name, f"http://127.0.0.1:{near}{path}"]
            curl = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
            said, _ = await curl.communicate()
            status, seconds = said.decode().split()
            print(f"{name}: {float(seconds):.2f} s, status {status}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    words = sys.argv[1:] + ["/", "100", "10000000"][len(sys.argv) - 2 :]
    asyncio.run(main(int(words[0]), words[1], float(words[2]), int(words[3])))
