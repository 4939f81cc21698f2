"""A headless Chromium driven over its debugging pipe: no driver, no port, no network."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ANSWER_S = 60.0


def find_browser() -> str | None:
    """A Chromium on PATH, or the one that ORBIT_TEST_CHROMIUM names."""
    named = os.environ.get("ORBIT_TEST_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """One tab, with everything the page complained about."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._out, self._in = to_browser, from_browser
        self._buffer = b""
        self._number = 0
        self._session = ""
        self.complaints: list[str] = []
        """Console messages above plain logging, exceptions, and what the security policy stopped."""
        self.requests: list[str] = []
        """URLs that the page asked for."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and its answer; events on the way are recorded."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self._event(answer)

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + ANSWER_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._in, 1 << 20)
            assert data, "the browser has ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _event(self, event: dict[str, Any]) -> None:
        name, values = event.get("method", ""), event.get("params", {})
        if name == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(values["exceptionDetails"])[:500])
        elif name == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(values["args"])[:500])
        elif name == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.complaints.append(values["entry"]["text"])
        elif name == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])

    def show(self, path: Path, *, width: int = 1400, height: int = 900, scheme: str = "light", hash_: str = "") -> None:
        """Open a file in a window of that size and colour scheme and wait until it is drawn."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=path.as_uri() + hash_)
        deadline = time.monotonic() + ANSWER_S
        while self.evaluate("location.href === 'about:blank' || document.readyState !== 'complete'"):
            assert time.monotonic() < deadline, "the page is not complete"
            time.sleep(0.05)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, path: Path, selector: str = "html") -> None:
        """A PNG of one element, as long as it is."""
        box = self.evaluate(
            f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            "return [r.x + scrollX, r.y + scrollY, r.width, r.height]; })()"
        )
        clip = dict(zip(("x", "y", "width", "height"), box, strict=True), scale=1)
        made = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(made["data"]))


@contextlib.contextmanager
def open_browser(binary: str, profile: Path) -> Iterator[Page]:
    """A browser of its own with an empty profile; ended, with what it started, at the end."""
    command_read, command_write = os.pipe()
    answer_read, answer_write = os.pipe()

    def as_three_and_four() -> None:
        # away from 3 and 4 first, so that no copy overwrites the other
        one, two = os.dup(command_read), os.dup(answer_write)
        os.dup2(one, 3)
        os.dup2(two, 4)

    process = subprocess.Popen(
        [binary, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run",
         "--hide-scrollbars", "--disable-dev-shm-usage", "--disable-background-networking",
         f"--user-data-dir={profile}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        pass_fds=(3, 4), preexec_fn=as_three_and_four,
    )  # fmt: skip
    os.close(command_read)
    os.close(answer_write)
    try:
        yield Page(command_write, answer_read)
    finally:
        with contextlib.suppress(OSError):
            os.write(command_write, b'{"id": 0, "method": "Browser.close"}\0')
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(command_write)
        os.close(answer_read)
