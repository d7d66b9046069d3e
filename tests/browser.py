"""A headless Chromium, driven over chromedriver's WebDriver protocol: just what the page's tests need."""

import base64
import json
import re
import subprocess
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.waiting import wait_until

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    "--hide-scrollbars",
)


class Browser:
    """A browser with one window.

    Args:
        folder: For its profile and log.
        width: Of the window in CSS pixels; below 500 a phone is emulated.
        height: Of the window.
        dark: Whether pages are told that dark colours are preferred.
    """

    def __init__(self, folder: Path, width: int = 1240, height: int = 1400, *, dark: bool = False) -> None:
        self._log = folder / "chromedriver.log"
        self._profile = folder / "profile"
        self._size = width, height
        self._dark = dark

    def __enter__(self) -> Self:
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0", f"--log-path={self._log}"], stdout=subprocess.PIPE, text=True
        )
        assert self._driver.stdout is not None
        lines = iter(self._driver.stdout.readline, "")
        port = next(match[1] for match in (re.search(r"successfully on port (\d+)", line) for line in lines) if match)
        self._root = f"http://127.0.0.1:{port}"
        try:
            self._session = f"{self._root}/session/{self._open()}"
        except BaseException:
            self._end()
            raise
        self.command("Emulation.setEmulatedMedia", features=[self._scheme()])
        width, height = self._size
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        return self

    def _scheme(self) -> dict[str, str]:
        return {"name": "prefers-color-scheme", "value": "dark" if self._dark else "light"}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._call("DELETE", self._session)
        finally:
            self._end()

    def _end(self) -> None:
        self._driver.terminate()
        self._driver.wait(10)
        assert self._driver.stdout is not None
        self._driver.stdout.close()

    def _open(self) -> str:
        flags = [*_FLAGS, f"--user-data-dir={self._profile}"]
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": flags},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        answer = self._call("POST", f"{self._root}/session", {"capabilities": {"alwaysMatch": wanted}})
        return str(answer["sessionId"])

    def _call(self, method: str, url: str, body: Any = None) -> Any:
        data = None if method == "DELETE" else json.dumps(body or {}).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        with _OPENER.open(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def command(self, name: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return self._call("POST", f"{self._session}/goog/cdp/execute", {"cmd": name, "params": parameters})

    def visit(self, url: str) -> None:
        """Opens a page and waits until it is loaded."""
        self._call("POST", f"{self._session}/url", {"url": url})

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        return self._call("POST", f"{self._session}/execute/sync", {"script": f"return {script}", "args": []})

    def text(self, selector: str = "body") -> str:
        """What is to be read in an element."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def wait_for(self, expression: str, timeout: float = 30) -> Any:
        """Waits until an expression in the page is true."""
        return wait_until(lambda: self.run(expression), timeout=timeout, what=f"{expression}\n{self.text()}")

    def complaints(self) -> list[str]:
        """Errors and warnings of the console since the last call."""
        entries = self._call("POST", f"{self._session}/se/log", {"type": "browser"})
        return [f"{entry['level']}: {entry['message']}" for entry in entries if entry["level"] != "INFO"]

    def screenshot(self, path: Path) -> Path:
        """A picture of the whole page."""
        height = self.run("Math.ceil(document.documentElement.scrollHeight)")
        clip = {"x": 0, "y": 0, "width": self._size[0], "height": height, "scale": 1}
        picture = self.command("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))
        return path
