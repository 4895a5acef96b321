"""A WebSocket client of a panel, by hand, and its messages as a control like that of OSC (test_live.Control)."""

import base64
import json
import math
import os
import re
import socket
import struct
import time

SHOWN = ["/hello", "/log", "/meters", "/spectrum", "/scene", "/ab/masks"]  # come by themselves


class WebSocket:
    def __init__(self, port, host=None, origin=None, path="/ws", protocol="haloconv", patience=10, address="127.0.0.1",
                 takes=None):
        self.socket, self.patience = socket.socket(), patience
        self.socket.settimeout(patience)
        if takes:  # bytes that the kernel takes without us
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, takes)
        self.socket.connect((address, port))
        headers = {"Host": host or f"{address}:{port}", "Upgrade": "websocket", "Connection": "Upgrade",
                   "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(), "Sec-WebSocket-Version": "13",
                   "Sec-WebSocket-Protocol": protocol, "Origin": origin}
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items() if value)]
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        head = b""
        while b"\r\n\r\n" not in head:
            got = self.socket.recv(65536)
            head += got
            if not got:
                break
        head, _, self.bytes = head.partition(b"\r\n\r\n")
        self.status = int(head.split()[1]) if head else None

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @staticmethod
    def frame(data, kind=1):
        mask, n = os.urandom(4), len(data)
        length = bytes([0x80 | n]) if n < 126 else bytes([0xfe]) + struct.pack(">H", n)
        return bytes([0x80 | kind]) + length + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data))

    def send_text(self, text):
        self.socket.sendall(self.frame(text.encode()))

    def send(self, *message):
        # JSON has no NaN; null is no number either.
        self.send_text(json.dumps([None if a != a else a for a in message]))

    def need(self, n):
        while len(self.bytes) < n:
            got = self.socket.recv(65536)
            if not got:
                raise EOFError
            self.bytes += got

    def take(self, n):
        self.need(n)
        taken, self.bytes = self.bytes[:n], self.bytes[n:]
        return taken

    def answer(self, *paths):
        """The next message, or the next one of these paths. EOFError: the server has ended the connection; its code."""
        end = time.monotonic() + self.patience  # levels come all the time
        while time.monotonic() < end:
            head = self.take(2)
            n = head[1]
            if n > 125:
                n = int.from_bytes(self.take(2 if n == 126 else 8), "big")
            data = self.take(n)
            if head[0] & 15 == 8:
                raise EOFError(struct.unpack(">H", data[:2])[0] if data else None)
            if head[0] & 15 == 9:  # a ping: the server asks a client that was silent for a while
                self.socket.sendall(self.frame(data, 10))
                continue
            message = json.loads(data)
            if message[0] in paths or not paths:
                return message
        raise TimeoutError(paths)


class PanelControl(WebSocket):
    """As a control of OSC: not subscribed, and without what comes by itself."""

    def __init__(self, client):
        super().__init__(port_of(client))
        self.send("/unsubscribe")
        self.answer("/unsubscribe")

    def answer(self, *paths):
        while True:
            message = super().answer(*paths)
            if message[0] in paths or message[0] not in SHOWN:
                return [message[0], *(-math.inf if a == "off" else a for a in message[1:])]

    def ask(self, *message):
        self.send(*message)
        return self.answer()

    def stats(self):
        return json.loads(self.ask("/stats")[1])


def port_of(client):
    return int(re.search(r"panel: http://\S*?:(\d+)/", client.said())[1])
