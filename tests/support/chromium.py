"""A headless Chromium over its DevTools pipe: no driver, no port, no library; whatever Chromium the machine has."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "chrome-headless-shell")
VARIABLE = "DP_CHROMIUM"
DESKTOP, PHONE = (1280, 900), (375, 812)

CONTRASTS = """
(() => {
  const dot = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const parse = text => {
    dot.clearRect(0, 0, 1, 1);
    dot.fillStyle = text;
    dot.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = dot.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const linear = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const luminance = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    if (element.closest('svg, .watermark')) continue;
    const [a, b] = [luminance(parse(getComputedStyle(element).color)), luminance(behind(element))];
    found.push([walker.currentNode.textContent.trim().slice(0, 40), (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)]);
  }
  return found;
})()
"""
"""The contrast of every visible text with the opaque background behind it; pictures are left out."""


def executable() -> str | None:
    """The Chromium that ``DP_CHROMIUM`` names, or the first one on the path."""
    named = os.environ.get(VARIABLE)
    return named or next(filter(None, map(shutil.which, NAMES)), None)


def chromium_or_skip() -> str:
    """The Chromium to test with; without one a test is skipped, saying so, and fails in CI."""
    found = executable()
    if found is None and os.environ.get("CI"):
        pytest.fail(f"no Chromium on the path; CI looks at the report in a browser ({VARIABLE} may name one)")
    if found is None:
        pytest.skip(f"NOT TESTED IN A BROWSER: no Chromium on the path; install one, or name it in {VARIABLE}")
    return found


@dataclass
class Page:
    """One page, and what happened in it since it was opened."""

    browser: Browser
    session: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a DevTools command."""
        return self.browser.call(method, parameters, session=self.session, page=self)

    def open(self, uri: str) -> None:
        """Load ``uri`` and wait until it is there."""
        self.requests.clear()
        self.complaints.clear()
        self.call("Page.navigate", url=uri)
        self.browser.wait_for("Page.loadEventFired", page=self)

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression, evaluated beside the page's own security policy."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def show(self, *, size: tuple[int, int] = DESKTOP, scheme: str = "light", media: str = "screen") -> None:
        """Take on a size, a colour scheme and a medium."""
        phone = size[0] < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=size[0],
            height=size[1],
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        self.call(
            "Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    def screenshot(self, path: Path, *, whole: bool = True) -> Path:
        """A picture of the page, of its whole length or of what is in view."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))
        return path

    def pdf(self) -> bytes:
        """The page as a user who leaves the print dialogue as it is would print it."""
        self.call("Emulation.setEmulatedMedia", media="print")
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=False)["data"])

    def accessibility_tree(self) -> list[dict[str, Any]]:
        """What a screen reader is given: ``role`` and ``name`` of every node that is not ignored."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            {"role": node["role"]["value"], "name": node.get("name", {}).get("value", "")}
            for node in nodes
            if not node["ignored"]
        ]

    def hover(self, x: float, y: float) -> None:
        """Move the pointer to a place in the viewport."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)


class Browser:
    """The process, spoken to in JSON with a zero byte after each message."""

    def __init__(self, process: subprocess.Popen[bytes], write: int, read: int) -> None:
        self._process, self._write, self._read = process, write, read
        self._buffer, self._events, self._number = b"", list[dict[str, Any]](), 0

    def new_page(self) -> Page:
        """A blank page that records its requests and complaints."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = Page(browser=self, session=session)
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            page.call(f"{domain}.enable")
        return page

    def call(
        self, method: str, parameters: dict[str, Any], *, session: str | None = None, page: Page | None = None
    ) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(page)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self._events.append(answer)

    def wait_for(self, method: str, *, page: Page) -> None:
        """Wait until an event of the page comes, or has come since it was last waited for."""
        while True:
            waiting, self._events = self._events, []
            if any(event.get("method") == method and event.get("sessionId") == page.session for event in waiting):
                return
            self._events.append(self._next(page))

    def _next(self, page: Page | None, *, patience: float = 60.0) -> dict[str, Any]:
        end = time.monotonic() + patience
        while b"\0" not in self._buffer:
            if not select([self._read], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium said nothing for {patience:.0f} s")
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise EOFError(f"Chromium ended with {self._process.wait()}")
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        if page is not None and message.get("sessionId") == page.session:
            _record(page, message)
        return dict(message)


def _record(page: Page, message: dict[str, Any]) -> None:
    parameters = message.get("params", {})
    match message.get("method"):
        case "Network.requestWillBeSent":
            page.requests.append(parameters["request"]["url"])
        case "Log.entryAdded":
            page.complaints.append(parameters["entry"]["text"])
        case "Runtime.exceptionThrown" | "Runtime.consoleAPICalled":
            page.complaints.append(json.dumps(parameters))


_WITH_PIPES = """
import os, sys
from fcntl import F_DUPFD, fcntl
ends = [fcntl(int(number), F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads its commands from descriptor 3 and answers on 4, which other pipes of ours may hold."""


@contextmanager
def browse() -> Iterator[Browser]:
    """A Chromium with a profile of its own, ended afterwards."""
    command = chromium_or_skip()
    to_child, write = os.pipe()
    read, from_child = os.pipe()
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _WITH_PIPES,
                str(to_child),
                str(from_child),
                command,
                "--headless=new",
                "--no-sandbox",  # the tests may run as root in a container; they load pages of ours alone
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--no-first-run",
                "--hide-scrollbars",
                "--force-color-profile=srgb",
                f"--user-data-dir={profile}",
                "--remote-debugging-pipe",
            ],
            pass_fds=(to_child, from_child),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # what it leaves in its folder for temporary files goes with the profile
            env={**os.environ, "HOME": profile, "TMPDIR": profile},
        )
        os.close(to_child)
        os.close(from_child)
        browser = Browser(process, write, read)
        try:
            yield browser
            browser.call("Browser.close", {})
        finally:
            os.close(write)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(read)
