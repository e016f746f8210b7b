"""HTTP by hand: clients that leave early, read slowly or never stop sending."""

import json
import socket
import struct
from typing import Any


def request(path: str, body: Any, **headers: str) -> bytes:
    """A POST with a JSON body."""
    data = json.dumps(body).encode()
    lines = {
        "Host": "127.0.0.1",
        "Content-Type": "application/json",
        "Content-Length": str(len(data)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + data


def chat(text: str, stream: bool) -> bytes:
    body = {"model": "macaron", "messages": [{"role": "user", "content": text}], "stream": stream}
    return request("/v1/chat/completions", body)


def connect(port: int, buffer: int | None = None) -> socket.socket:
    made = socket.socket()
    if buffer:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    made.settimeout(10)
    made.connect(("127.0.0.1", port))
    return made


def until(client: socket.socket, end: bytes) -> bytes:
    """Reads up to some bytes, or to the end of the connection."""
    got = b""
    while end not in got and (piece := client.recv(4096)):
        got += piece
    return got


def reset(client: socket.socket) -> None:
    """Leaves without a word, as a killed client does."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
