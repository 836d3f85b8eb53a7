"""A server that takes its time over some answers, and speaks WebSocket as far as an echo."""

import asyncio
import base64
import hashlib

LONG, PARTS = 200_000, 10
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Visit(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.bytes, self.is_joined, self.unread = transport, b"", False, 0

    def data_received(self, data):
        if self.is_joined:
            self.transport.write(data)
            return
        self.bytes += data
        while self.bytes:
            body = min(self.unread, len(self.bytes))
            self.bytes, self.unread = self.bytes[body:], self.unread - body
            head, end, rest = self.bytes.partition(b"\r\n\r\n")
            if self.unread or not end:
                return
            self.bytes = rest
            self.answer(head)

    def answer(self, head):
        line, *fields = head.split(b"\r\n")
        headers = {name.lower(): value.strip() for name, value in (f.split(b":", 1) for f in fields)}
        self.unread = int(headers.get(b"content-length", 0))
        if b"upgrade" in headers:
            key = base64.b64encode(hashlib.sha1(headers[b"sec-websocket-key"] + MAGIC).digest())
            self.transport.write(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                b"Sec-WebSocket-Accept: " + key + b"\r\n\r\n"
            )
            self.is_joined = True
        elif b" /long" in line:
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LONG)
            self.part(PARTS)
        else:
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    def part(self, left):
        if left and not self.transport.is_closing():
            self.transport.write(bytes(LONG // PARTS))
            asyncio.get_running_loop().call_later(0.1, self.part, left - 1)


async def serve(ready):
    server = await asyncio.get_running_loop().create_server(Visit, "127.0.0.1", 0, backlog=1024)
    ready.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def run(ready):
    asyncio.run(serve(ready))
