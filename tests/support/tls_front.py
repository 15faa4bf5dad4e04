"""TLS in front of a PostgreSQL server whose build has none: its clients see what a server with TLS shows."""

from __future__ import annotations

import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SSL_REQUEST = bytes.fromhex("0000000804d2162f")
REFUSAL = b"SFATAL\0C28000\0Mno encryption\0\0"


@contextmanager
def tls_front(server: int, *, certificate: Path, key: Path) -> Iterator[int]:
    """The port on loopback that speaks TLS, and nothing else, for the server at the port ``server``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening, context, server), daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def _accept(listening: socket.socket, context: ssl.SSLContext, server: int) -> None:
    with suppress(OSError):
        while True:
            client = listening.accept()[0]
            threading.Thread(target=_serve, args=(client, context, server), daemon=True).start()


def _serve(client: socket.socket, context: ssl.SSLContext, server: int) -> None:
    with suppress(OSError), client:
        if client.recv(len(SSL_REQUEST)) != SSL_REQUEST:
            client.sendall(b"E" + (len(REFUSAL) + 4).to_bytes(4, "big") + REFUSAL)
            return
        client.sendall(b"S")
        with (
            context.wrap_socket(client, server_side=True) as inside,
            socket.create_connection(("127.0.0.1", server)) as behind,
        ):
            threading.Thread(target=_copy, args=(behind, inside), daemon=True).start()
            _copy(inside, behind)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError), source.makefile("rb", buffering=0) as read, target.makefile("wb", buffering=0) as write:
        shutil.copyfileobj(read, write)
        target.shutdown(socket.SHUT_RDWR)
