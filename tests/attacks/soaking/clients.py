"""Clients that come, wait, and in a third of all cases leave early, over HTTP/1.1 and HTTP/2."""

import asyncio
import collections
import random
import socket
import struct
import time

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

HTTP1_CLIENTS, CONNECTIONS, STREAMS = 160, 4, 24
LEAVING = 1 / 3
# As long as a wait in the line may be.
WAIT = 0.6
# So long a key is asked for; then others are.
KEY_LIFE, KEYS = 5, 300
PATIENCE = 60
BODY = bytes(2048)


class Left(Exception):
    """The client went."""


def visit(can_join):
    """Where to, and when to leave: after so many seconds, or "head", or never."""
    paths, weights = ["/line", "/tokens", "/guard", "/long", "/socket"], [70, 10, 10, 6, 4]
    path = random.choices(paths[: 4 + can_join], weights[: 4 + can_join])[0]
    leaves = None
    if random.random() < LEAVING:
        leaves = random.choice([0.0, random.uniform(0, WAIT), random.uniform(0, WAIT), "head"])
    return path, leaves, random.random() < 0.2


def key():
    return f"{int(time.time() / KEY_LIFE)}-{random.randrange(KEYS)}"


class Http1:
    """One client, one request at a time."""

    def __init__(self, address):
        self.address, self.reader, self.writer = address, None, None

    async def once(self, path, leaves, posts):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(*self.address)
        head = f"{'POST' if posts else 'GET'} {path} HTTP/1.1\r\nHost: a\r\nX-Key: {key()}\r\n"
        if path == "/socket":
            head = head.replace("POST", "GET") + (
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            )
            posts = False
        if posts:
            head += f"Content-Length: {len(BODY)}\r\n"
        sent = BODY[: len(BODY) // (2 if leaves else 1)] if posts else b""
        is_whole = not posts or len(sent) == len(BODY)
        self.writer.write(head.encode() + b"\r\n" + sent)
        try:
            async with asyncio.timeout(leaves if isinstance(leaves, float) else PATIENCE):
                status = await self.answer(path, leaves)
                if not is_whole:
                    self.close()
                return status
        except TimeoutError:
            if leaves is None:
                return "late"
            raise Left from None

    async def answer(self, path, leaves):
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head[9:12])
        if leaves == "head":
            raise Left
        if status == 101:
            for _ in range(random.randrange(1, 20)):
                said = random.randbytes(random.randrange(1, 4000))
                self.writer.write(said)
                if await self.reader.readexactly(len(said)) != said:
                    return "garbled"
                await asyncio.sleep(0.1)
            self.close()
            return status
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        await self.reader.readexactly(length)
        if b"connection: close" in head:
            self.close()
        return status

    def leave(self):
        """By FIN or by RST."""
        if self.writer is not None and random.random() < 0.5:
            linger = struct.pack("ii", 1, 0)
            self.writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, linger
            )
        self.close()

    def close(self):
        if self.writer is not None:
            self.writer.transport.abort()
        self.reader = self.writer = None


class Connection(asyncio.Protocol):
    """One of HTTP/2."""

    def connection_made(self, transport):
        self.transport, self.streams, self.is_open = transport, {}, True
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self.h2 = h2.connection.H2Connection(config)
        self.h2.initiate_connection()
        self.flush()

    def flush(self):
        if not self.transport.is_closing():
            self.transport.write(self.h2.data_to_send())

    def connection_lost(self, _why):
        self.is_open = False
        for head, whole in self.streams.values():
            for future in (head, whole):
                if not future.done():
                    future.set_exception(ConnectionError())
                    # Not everybody still asks.
                    future.exception()
        self.streams.clear()

    def data_received(self, data):
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.ConnectionTerminated):
                self.is_open = False
            stream = self.streams.get(getattr(event, "stream_id", None))
            if isinstance(event, h2.events.DataReceived):
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if stream is None:
                continue
            head, whole = stream
            if isinstance(event, h2.events.ResponseReceived) and not head.done():
                head.set_result(int(dict(event.headers)[":status"]))
            elif isinstance(event, h2.events.StreamEnded) and not whole.done():
                whole.set_result(None)
            elif isinstance(event, h2.events.StreamReset):
                for future in (head, whole):
                    if not future.done():
                        future.set_exception(ConnectionError())
                        future.exception()
        self.flush()

    def ask(self, path, posts, leaves):
        number = self.h2.get_next_available_stream_id()
        loop = asyncio.get_running_loop()
        self.streams[number] = loop.create_future(), loop.create_future()
        headers = [(":method", "POST" if posts else "GET"), (":scheme", "http"),
                   (":authority", "a"), (":path", path), ("x-key", key())]
        sent = BODY[: len(BODY) // (2 if leaves else 1)]
        if posts:
            headers.append(("content-length", str(len(BODY))))
        self.h2.send_headers(number, headers, end_stream=not posts)
        if posts:
            self.h2.send_data(number, sent, end_stream=not leaves)
        self.flush()
        return number

    def reset(self, number):
        try:
            self.h2.reset_stream(number, h2.errors.ErrorCodes.CANCEL)
            self.flush()
        except h2.exceptions.ProtocolError:
            pass  # it has ended


class Http2:
    """Many requests on one connection, until somebody drops it."""

    def __init__(self, address):
        self.address, self.connection, self.opening = address, None, asyncio.Lock()

    async def once(self, path, leaves, posts):
        async with self.opening:
            if self.connection is None or not self.connection.is_open:
                loop = asyncio.get_running_loop()
                _, self.connection = await loop.create_connection(Connection, *self.address)
        connection = self.connection
        number = connection.ask(path, posts, leaves)
        head, whole = connection.streams[number]
        try:
            async with asyncio.timeout(leaves if isinstance(leaves, float) else PATIENCE):
                status = await head
                if leaves == "head":
                    raise Left
                await whole
                return status
        except TimeoutError:
            if leaves is None:
                return "late"
            raise Left from None
        except ConnectionError:
            if getattr(connection, "was_dropped", False):
                raise Left from None
            raise
        finally:
            connection.streams.pop(number, None)
            # One whose body is half sent, too.
            connection.reset(number)

    def leave(self):
        """The stream is reset; now and then the whole connection goes."""
        if random.random() < 0.02 and self.connection is not None:
            self.connection.was_dropped = True
            self.connection.transport.abort()

    def close(self):
        if self.connection is not None:
            self.connection.transport.abort()


async def crowd_member(client, ends, counts, can_join):
    while time.monotonic() < ends:
        path, leaves, posts = visit(can_join)
        try:
            status = await client.once(path, leaves, posts)
        except Left:
            status = "left"
            client.leave()
        except (OSError, asyncio.IncompleteReadError, h2.exceptions.ProtocolError) as broken:
            status = f"broken ({type(broken).__name__})"
            client.close()
        counts[path, str(status)] += 1
        # Whoever is refused doesn't come back at once.
        await asyncio.sleep(random.uniform(0, 0.3 if status == 429 else 0.05))


async def crowd(addresses, seconds, is_http2):
    ends, counts, members = time.monotonic() + seconds, collections.Counter(), []
    clients = []
    for address in addresses:
        host, port = address.rsplit(":", 1)
        if is_http2:
            for _ in range(CONNECTIONS):
                shared = Http2((host, int(port)))
                clients += [shared] * STREAMS
        else:
            clients += [Http1((host, int(port))) for _ in range(HTTP1_CLIENTS // 2)]
    for client in clients:
        members.append(crowd_member(client, ends, counts, can_join=not is_http2))
    await asyncio.gather(*members)
    for client in clients:
        client.close()
    return counts


def run(addresses, seconds, is_http2, told):
    told.send(asyncio.run(crowd(addresses, seconds, is_http2)))
