"""A very small S3 on loopback: PUT (with If-None-Match), GET, HEAD, DELETE and a listing, enough for s3fs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

AWS = {
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_DEFAULT_REGION": "us-east-1",
    "NO_PROXY": "127.0.0.1",
}
"""The variables of a client, besides the address."""


class S3(ThreadingHTTPServer):
    """The server, its objects and the headers of each PUT it saw."""

    daemon_threads = True

    def __init__(self, *, honours_condition: bool = True, names_condition: bool = True, conflicts: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.puts: list[dict[str, str]] = []
        self.honours_condition = honours_condition
        self.names_condition = names_condition
        self.conflicts = conflicts
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: S3
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    @property
    def key(self) -> str:
        return unquote(urlsplit(self.path).path)

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _error(self, status: int, code: str, extra: str = "") -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message>{extra}</Error>".encode())

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            size, _, rest = body.partition(b"\r\n")
            body = rest[: int(size.split(b";")[0], 16)]
        server = self.server
        with server.lock:
            server.puts.append({name.lower(): value for name, value in self.headers.items()})
            conditional = self.headers.get("If-None-Match") == "*" and server.honours_condition
            if conditional and server.conflicts:
                server.conflicts -= 1
                self._error(409, "ConditionalRequestConflict")
                return
            if conditional and self.key in server.objects:
                named = "<Condition>If-None-Match</Condition>" if server.names_condition else ""
                self._error(412, "PreconditionFailed", named)
                return
            server.objects[self.key] = body
        self._answer(200, ETag='"0"')

    def do_GET(self) -> None:
        if "list-type" in self.path:
            self._answer(200, self._listing())
        elif self.key in self.server.objects:
            self._answer(200, self.server.objects[self.key], ETag='"0"', Last_Modified="Sat, 21 Nov 2026 00:00:00 GMT")
        else:
            self._error(404, "NoSuchKey")

    def _listing(self) -> bytes:
        """ListObjectsV2, whole and on one page."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        bucket, prefix, delimiter = self.key.rstrip("/"), asked.get("prefix", ""), asked.get("delimiter", "")
        contents, folders = "", set()
        for key, body in sorted(self.server.objects.items()):
            name = key.removeprefix(f"{bucket}/")
            if not key.startswith(f"{bucket}/") or not name.startswith(prefix):
                continue
            rest = name[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.split(delimiter)[0] + delimiter)
                continue
            contents += f"<Contents><Key>{escape(name)}</Key><Size>{len(body)}</Size><ETag>0</ETag>"
            contents += "<LastModified>2026-11-21T00:00:00Z</LastModified></Contents>"
        contents += "".join(f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in folders)
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>".encode()

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self.server.objects.pop(self.key, None)
        self._answer(204)


@contextmanager
def s3_server(**behaviour: Any) -> Iterator[S3]:
    server = S3(**behaviour)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
