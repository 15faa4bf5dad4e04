"""Stand-ins for the HTTP interfaces of clusters, which answer as they are documented and remember what was asked."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[str, str, Any], tuple[int, Any]]
"""From method, path and document to status and document."""


class Server:
    """Answers with ``answer`` on a free port of the loopback interface."""

    def __init__(self, answer: Answer) -> None:
        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                asked = json.loads(self.rfile.read(length) or b"null")
                status, document = answer(self.command, self.path, asked)
                content = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815, the names are the library's

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Master:
    """The REST server of a standalone master, as Spark's page on its standalone mode describes it."""

    def __init__(self) -> None:
        self.drivers: dict[str, str] = {}
        self.created: list[dict[str, Any]] = []
        self.server = Server(self.answer)

    def answer(self, method: str, path: str, asked: Any) -> tuple[int, Any]:
        if (method, path) == ("POST", "/v1/submissions/create"):
            required = {"action", "appArgs", "appResource", "clientSparkVersion", "environmentVariables", "mainClass"}
            assert set(asked) == required | {"sparkProperties"}
            assert asked["mainClass"] == "org.apache.spark.deploy.SparkSubmit"
            assert all(isinstance(value, str) for value in asked["sparkProperties"].values())
            self.created.append(asked)
            name = f"driver-2026-{len(self.created):04d}"
            self.drivers[name] = "RUNNING"
            return 200, {"action": "CreateSubmissionResponse", "submissionId": name, "success": True}
        match = re.fullmatch(r"/v1/submissions/(status|kill)/([\w-]+)", path)
        assert match is not None, path
        verb, name = match.groups()
        assert method == {"status": "GET", "kill": "POST"}[verb]
        if name not in self.drivers:
            return 200, {"success": False, "submissionId": name}
        if verb == "kill" and self.drivers[name] == "RUNNING":
            self.drivers[name] = "KILLED"
        return 200, {"success": True, "submissionId": name, "driverState": self.drivers[name]}


class ResourceManager:
    """YARN's resource manager, as Hadoop's page on its REST interface describes it."""

    SUBMITTED = "/submitted"
    """Where the stand-in for ``spark-submit`` posts an application's tags; the real one speaks another protocol."""

    def __init__(self) -> None:
        self.applications: dict[str, dict[str, str]] = {}
        self.server = Server(self.answer)

    def accept(self, tags: str) -> str:
        name = f"application_1_{len(self.applications):04d}"
        self.applications[name] = {"id": name, "state": "RUNNING", "applicationTags": tags}
        return name

    def answer(self, method: str, path: str, asked: Any) -> tuple[int, Any]:
        if (method, path) == ("POST", self.SUBMITTED):
            return 200, self.accept(asked)
        listed = re.fullmatch(r"/ws/v1/cluster/apps\?applicationTags=([\w-]+)", path)
        if method == "GET" and listed:
            found = [app for app in self.applications.values() if listed[1] in app["applicationTags"].split(",")]
            return 200, {"apps": {"app": found} if found else None}
        ended = re.fullmatch(r"/ws/v1/cluster/apps/(\w+)/state", path)
        assert method == "PUT", path
        assert ended is not None, path
        assert asked == {"state": "KILLED"}
        self.applications[ended[1]]["state"] = "KILLED"
        return 202, {"state": "ACCEPTED"}
