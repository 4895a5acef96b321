"""Headless Chromium, driven by chromedriver over WebDriver's JSON (w3.org/TR/webdriver): no package is needed."""

import base64
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import time
import urllib.error
import urllib.request

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
MISSING = None if CHROMIUM and DRIVER else "no Chromium or chromedriver; make setup-browser installs them"
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # WebDriver's name of a reference to an element
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Shift": "\ue008", "Escape": "\ue00c", "Space": " ", "PageUp": "\ue00e",
        "PageDown": "\ue00f", "End": "\ue010", "Home": "\ue011", "ArrowLeft": "\ue012", "ArrowUp": "\ue013",
        "ArrowRight": "\ue014", "ArrowDown": "\ue015"}


class Browser:
    """A window of Chromium. `run` evaluates JavaScript in the page, and returns its value."""

    def __init__(self, port, options):
        self.base = f"http://127.0.0.1:{port}/session"
        self.id = self.call("POST", "", {"capabilities": {"alwaysMatch": options}})["sessionId"]
        self.base += f"/{self.id}"

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.base + path, method=method, headers={"Content-Type": "application/json"},
                                         data=json.dumps(body or {}).encode() if method == "POST" else None)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()}") from error

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *args):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def wait(self, condition, seconds=30):
        """Waits until a JavaScript expression is true; returns its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run(f"return {condition}")
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError(f"waited {seconds} s for {condition}; alerts: {self.text('#alerts')}")

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def find(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.call("POST", f"/element/{self.find(selector)}/click")

    def type(self, selector, text):
        """Replaces the text of a field, and leaves the field."""
        self.run("document.querySelector(arguments[0]).select()", selector)
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text + KEYS["Tab"]})

    def files(self, selector, *paths):
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": "\n".join(map(str, paths))})

    def choose(self, selector, value):
        self.run("const e = document.querySelector(arguments[0]); e.value = arguments[1];"
                 "e.dispatchEvent(new Event('change', {bubbles: true}))", selector, value)

    def press(self, *keys):
        """Presses keys one after the other; "Shift+Tab" is two at once."""
        actions = []
        for key in keys:
            names = [key] if len(key) == 1 else key.split("+")
            codes = [KEYS.get(name, name) for name in names]
            actions += [{"type": "keyDown", "value": code} for code in codes]
            actions += [{"type": "keyUp", "value": code} for code in reversed(codes)]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def drag(self, start, end, pointer="mouse", button=0):
        """Drags from one point of the view to another, in steps."""
        self.pointers([(start, end)], pointer, button)

    def touch(self, *paths):
        """Fingers go down one after the other, then each in turn moves from its first to its second point, and up."""
        self.pointers(paths, "touch", 0)

    def pointers(self, paths, pointer, button):
        def move(start, end, share, ms):
            x, y = (round(a + (b - a) * share) for a, b in zip(start, end))
            return {"type": "pointerMove", "duration": ms, "x": x, "y": y, "origin": "viewport"}

        def rest(n):
            return [{"type": "pause", "duration": 0}] * n

        last = len(paths) - 1
        self.call("POST", "/actions", {"actions": [
            {"type": "pointer", "id": f"{pointer}{i}", "parameters": {"pointerType": pointer}, "actions": [
                *rest(2 * i), move(*path, 0, 0), {"type": "pointerDown", "button": button}, *rest(2 * (last - i)),
                *rest(3 * i), move(*path, 0.5, 50), move(*path, 1, 50), {"type": "pointerUp", "button": button}]}
            for i, path in enumerate(paths)]})

    def size(self, width, height):
        """Sets the size of the view, not of the window, which is never narrower than 500 pixels."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                      mobile=False)

    def scheme(self, light):
        self.devtools("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "light" if light else "dark"}])

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def picture(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def errors(self):
        """What the console has reported since the last call: errors of scripts, refusals of the security policy."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})
                if entry["level"] == "SEVERE"]


@contextlib.contextmanager
def browser(folder):
    """A driver on a free port, with its own profile in the folder; both end with the block."""
    folder = pathlib.Path(folder).resolve()
    with open(folder / "driver.log", "w") as log:
        process = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=log, text=True,
                                   env={**os.environ, "HOME": str(folder), "DBUS_SESSION_BUS_ADDRESS": "disabled:"})
    window = None
    try:
        port = next((line.split()[-1].rstrip(".") for line in process.stdout
                     if "started successfully on port" in line), None)
        assert port, f"chromedriver has not started: {(folder / 'driver.log').read_text()}"
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                 "--force-color-profile=srgb", f"--user-data-dir={folder / 'profile'}"]
        window = Browser(port, {"browserName": "chrome", "goog:chromeOptions": {"binary": CHROMIUM, "args": flags},
                                "goog:loggingPrefs": {"browser": "ALL"}})
        yield window
    finally:
        if window:
            with contextlib.suppress(Exception):
                window.call("DELETE", "")
        process.terminate()
        process.wait(20)
