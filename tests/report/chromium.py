"""Control a headless Chromium over a pipe."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import subprocess
from pathlib import Path
from typing import Any


class Chromium:
    """A page in a headless Chromium, controlled over its DevTools protocol.

    The protocol uses two pipes (messages end with a zero byte), so that neither a port nor a library is needed.
    """

    def __init__(self, program: str, profile: Path) -> None:
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        # Chromium reads descriptor 3 and writes 4. Move our own descriptors out of the way first.
        passed = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (theirs_in, theirs_out)]
        options = [
            "--headless=new",
            "--no-sandbox",  # needed to run as root
            "--disable-gpu",
            "--disable-dev-shm-usage",  # containers have little shared memory
            "--hide-scrollbars",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
        ]
        script = f'exec "$0" "$@" 3<&{passed[0]} 4>&{passed[1]}'
        with (profile.parent / "chromium.log").open("wb") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", script, program, *options, "about:blank"], pass_fds=passed, stdout=log, stderr=log
            )
        for fd in (theirs_in, theirs_out, *passed):
            os.close(fd)
        self.read, self.write, self.waiting = ours_in, ours_out, b""
        self.events: list[dict[str, Any]] = []
        self.number, self.session = 0, None
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method and return its result; store events that arrive before it."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        message = json.dumps(request).encode() + b"\0"
        while message:
            message = message[os.write(self.write, message) :]
        while True:
            message = self.receive()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def receive(self) -> dict[str, Any]:
        while b"\0" not in self.waiting:
            more = os.read(self.read, 2**20)
            if not more:
                raise RuntimeError("Chromium has ended")
            self.waiting += more
        message, _, self.waiting = self.waiting.partition(b"\0")
        return json.loads(message)

    def open(self, path: Path) -> None:
        """Load a file and wait until it is loaded and drawn."""
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())
        self.settle()

    def settle(self) -> None:
        """Wait for two frames, after which the effects of an event have been drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, awaited."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description"))
        return answer["result"].get("value")

    def look(self, width: int, scheme: str) -> None:
        """Show the page at a width in CSS pixels, light or dark."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.run("new Promise((done) => setTimeout(done, 400))")  # Plotly resizes with a delay
        self.settle()

    def press(self, key: str, times: int = 1) -> None:
        """Press a key of the keyboard."""
        for _ in range(times):
            for kind in ("rawKeyDown", "keyUp"):
                codes = {"windowsVirtualKeyCode": {"ArrowLeft": 37, "ArrowRight": 39, "Enter": 13}.get(key, 0)}
                self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, **codes)
        self.settle()

    def picture(self, path: Path) -> None:
        """Save the whole page as a PNG."""
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def errors_and_warnings(self) -> list[str]:
        """Return errors, warnings and uncaught exceptions since the page was opened."""
        self.run("1")
        results = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                results.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
            elif event.get("method") == "Runtime.consoleAPICalled" and params["type"] in {"error", "warning"}:
                results.append(str(params["args"]))
            elif event.get("method") == "Log.entryAdded":
                results.append(params["entry"]["text"])
        return results

    def requests(self) -> list[str]:
        """Return the URLs that the page requested."""
        urls = [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith(("file:", "data:", "blob:"))]

    def close(self) -> None:
        self.session = None
        self.send("Browser.close")
        self.process.wait(20)
        os.close(self.read)
        os.close(self.write)
