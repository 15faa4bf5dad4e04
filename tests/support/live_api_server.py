"""Airflow's API server alone, with users who may not do everything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError

from tests.support.live_airflow import PATIENCE, _ask, _end, _free_port


@dataclass(frozen=True, kw_only=True)
class LiveApiServer:
    """A running server.

    Attributes:
        url: without a trailing slash.
        users: their passwords, by name.
    """

    url: str
    users: Mapping[str, str]

    def token(self, user: str) -> str:
        """What shows the server who the user is."""
        asked = {"username": user, "password": self.users[user]}
        return str(_ask("POST", f"{self.url}/auth/token", asked, token=None)["access_token"])

    def get(
        self, path: str, *, token: str | None = None, cookie: str | None = None
    ) -> tuple[int, str, Mapping[str, str]]:
        """The status, the body and the headers of an answer."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= {"Cookie": f"_token={cookie}"} if cookie else {}
        request = urllib.request.Request(f"{self.url}{path}", headers=headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                return answer.status, answer.read().decode(), dict(answer.headers)
        except HTTPError as error:
            return error.code, error.read().decode(), dict(error.headers)


@contextmanager
def live_api_server(
    folder: Path,
    *,
    roles: Mapping[str, str],
    environment: Mapping[str, str],
    prepare: Callable[[dict[str, str]], None] = lambda env: None,
) -> Iterator[LiveApiServer]:
    """Start it, with users by their role, once ``prepare`` was called with its variables; it ends with the context."""
    home, port = folder / "airflow", _free_port()
    home.mkdir()
    url, users = f"http://127.0.0.1:{port}", {user: f"password of {user}" for user in roles}
    passwords = home / "passwords.json"
    passwords.write_text(json.dumps(users))
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in roles.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API_AUTH__JWT_SECRET": "for tests on loopback alone, and long enough for its algorithm to take",
        "AIRFLOW__API__SECRET_KEY": "for tests on loopback alone",
        "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
        "NO_PROXY": "127.0.0.1",
        **environment,
    }
    airflow = [sys.executable, "-m", "airflow"]
    subprocess.run([*airflow, "db", "migrate"], env=env, check=True, capture_output=True, timeout=PATIENCE)
    prepare(env)
    with (home / "api-server.out").open("wb") as out:
        command = [*airflow, "api-server", "--workers", "1"]
        server = subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        running = LiveApiServer(url=url, users=users)
        _wait(running, home)
        yield running
    finally:
        _end([server])


def _wait(server: LiveApiServer, home: Path) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if server.get("/api/v2/version")[0] == 200:
                return
        except OSError:
            time.sleep(0.5)
    raise TimeoutError((home / "api-server.out").read_text()[-4000:])
