"""A real browser for tests and pictures: Chromium without a window, driven over a pipe.

Speaks the DevTools protocol on two file descriptors, as ``--remote-debugging-pipe`` has it: each
message is JSON and ends with a zero byte. Needs the program and nothing else, no port and no
package. Knows nothing of what the pages say.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE = 60.0
_HIGH = 20
"""Descriptors from here on are in nobody's way while 3 and 4 are set up."""
_ARGUMENTS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--hide-scrollbars",
    "--mute-audio",
    "--no-proxy-server",
)


def find_chromium() -> str | None:
    """The program, if this machine has one."""
    return next((found for each in PROGRAMS if (found := shutil.which(each))), None)


class Tab:
    """One page in a browser, and everything that it said and asked for."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    def call(self, method: str, **parameters: Any) -> Any:
        """A command of the protocol, and its answer."""
        return self._browser.call(method, parameters, self._session)

    def look(
        self, width: int, height: int, *, scheme: str = "light", scale: float = 1, is_phone: bool
    ) -> None:
        """Whose eyes see the page: how wide they look, and whether they like it dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=is_phone,
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def open(self, url: str) -> None:
        """Go there, and wait until everything is loaded."""
        self._browser.events.clear()
        answer = self.call("Page.navigate", url=url)
        if answer.get("errorText"):
            raise RuntimeError(f"{url} did not open: {answer['errorText']}")
        self._browser.wait_for("Page.loadEventFired", self._session)

    def ask(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def picture(self, *, clip: Mapping[str, float] | None = None, is_whole: bool = False) -> bytes:
        """What is seen, as PNG; ``is_whole`` goes down to the end of the page."""
        more: dict[str, Any] = {} if clip is None else {"clip": {**clip, "scale": 1}}
        answer = self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=is_whole, **more
        )
        return base64.b64decode(answer["data"])

    def complaints(self) -> list[str]:
        """What the console says, and errors that nobody caught, since the page was opened."""
        self.ask("1")
        return [
            json.dumps(each["params"])
            for each in self._browser.events
            if each["method"]
            in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        ]

    def requests(self) -> list[str]:
        """Every address that was asked for since the page was opened, that of the page too."""
        self.ask("1")
        return [
            each["params"]["request"]["url"]
            for each in self._browser.events
            if each["method"] == "Network.requestWillBeSent"
        ]


class Browser:
    """A process of Chromium, until it is closed."""

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, self._out = _high_pipe()
        self._in, from_browser = _high_pipe()
        arguments = [program, *_ARGUMENTS, f"--user-data-dir={profile}"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # its sandbox refuses to work for root
        self._log = profile / "stderr.txt"
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        nothing = os.open(os.devnull, os.O_RDWR)
        actions: list[Any] = [
            (os.POSIX_SPAWN_DUP2, nothing, 0),
            (os.POSIX_SPAWN_DUP2, nothing, 1),
            (os.POSIX_SPAWN_DUP2, log, 2),
            (os.POSIX_SPAWN_DUP2, to_browser, 3),
            (os.POSIX_SPAWN_DUP2, from_browser, 4),
        ]
        self._pid = os.posix_spawn(
            program, arguments, dict(os.environ), file_actions=actions, setpgroup=0
        )
        for each in (to_browser, from_browser, log, nothing):
            os.close(each)
        self._number = 0
        self._rest = b""
        self.events: list[dict[str, Any]] = []

    def new_tab(self) -> Tab:
        """An empty page that tells what happens in it."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        tab = Tab(self, attached["sessionId"])
        for domain in ("Page", "Runtime", "Network", "Log"):
            tab.call(f"{domain}.enable")
        return tab

    def call(self, method: str, parameters: Mapping[str, Any], session: str | None = None) -> Any:
        """A command and its answer; events that come meanwhile are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _PATIENCE
        while True:
            came = self._next(deadline)
            if came.get("id") == self._number:
                if "error" in came:
                    raise RuntimeError(f"{method}: {came['error']}")
                return came["result"]

    def wait_for(self, event: str, session: str) -> None:
        """Wait for an event of a page; one that came already counts."""
        deadline = time.monotonic() + _PATIENCE
        while not any(
            each["method"] == event and each.get("sessionId") == session for each in self.events
        ):
            self._next(deadline)

    def close(self) -> None:
        """End the process and all that it started."""
        # One that has gone already is what is wanted.
        with contextlib.suppress(OSError, RuntimeError, TimeoutError):
            self.call("Browser.close", {})
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._out)
        os.close(self._in)

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise TimeoutError(f"Chromium did not answer; it said: {self._said()}")
            came = os.read(self._in, 1 << 20)
            if not came:
                raise RuntimeError(f"Chromium ended; it said: {self._said()}")
            self._rest += came
        message, _, self._rest = self._rest.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        if "method" in decoded:
            self.events.append(decoded)
        return decoded

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-2_000:]


@contextlib.contextmanager
def browser(program: str, profile: Path) -> Iterator[Browser]:
    """A browser while the block runs; ``profile`` is an empty directory of its own."""
    profile.mkdir(parents=True, exist_ok=True)
    made = Browser(program, profile)
    try:
        yield made
    finally:
        made.close()


def _high_pipe() -> tuple[int, int]:
    """A pipe whose two ends are not among the first descriptors, and that nobody inherits."""
    low = os.pipe()
    high = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _HIGH) for each in low]
    for each in low:
        os.close(each)
    return high[0], high[1]
