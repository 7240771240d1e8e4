"""Checks that no page of the built documentation is wider than its window.

    python scripts/check_site.py docs/_build/html

A browser, Chromium or Chrome, shows every page in windows of usual widths and tells how wide it is.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue

BROWSERS = ("chromium", "google-chrome", "chromium-browser")
WIDTHS = (1280, 1366, 1440, 1512, 1600, 1920)
SECONDS = 300
# Shows each page in a frame, and sends the names and widths of those that scroll sideways.
MEASURE = """<iframe id=frame style="border:0; height:800px"></iframe><script>
const frame = document.getElementById("frame"), found = [];
(async () => {
  for (const page of PAGES) {
    await new Promise(loaded => { frame.onload = loaded; frame.src = page; });
    for (const width of WIDTHS) {
      frame.style.width = width + "px";
      await new Promise(drawn => setTimeout(drawn, 30));
      const shown = frame.contentDocument.documentElement;
      const wanted = shown.scrollWidth;
      if (wanted > shown.clientWidth) found.push(`${page}: ${wanted} pixels in ${width}`);
    }
  }
  fetch("/", { method: "POST", body: JSON.stringify(found) });
})();
</script>"""


class Handler(SimpleHTTPRequestHandler):
    """Serves the pages and the script, and takes what the script sends."""

    def __init__(self, *arguments: object, script: str, results: Queue[list[str]], folder: Path):
        self.script, self.results = script, results
        super().__init__(*arguments, directory=str(folder))  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """Answer with the script at the root, and with files elsewhere."""
        if self.path != "/":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.script.encode())

    def do_POST(self) -> None:
        """Take the results."""
        self.results.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


def main(folder: Path) -> None:
    """Print how many pages fit, or stop with those that don't."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"widths of pages are not checked: none of {', '.join(BROWSERS)} is installed")
        return
    built = (path.relative_to(folder) for path in folder.rglob("*.html"))
    pages = sorted(str(path) for path in built if not path.parts[0].startswith("_"))
    script = MEASURE.replace("PAGES", json.dumps(pages)).replace("WIDTHS", json.dumps(WIDTHS))
    results: Queue[list[str]] = Queue()
    handler = partial(Handler, script=script, results=results, folder=folder)
    with (
        tempfile.TemporaryDirectory() as profile,
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        options += [f"--user-data-dir={profile}", "--window-size=2000,900"]
        options += [
            "--remote-debugging-port=0"
        ]  # without it, the browser ends when the page is there
        command = [browser, *options, f"http://127.0.0.1:{server.server_port}/"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            try:
                found = results.get(timeout=SECONDS)
            except Empty:
                sys.exit(f"{browser} measured no pages in {SECONDS} seconds")
            finally:
                run.terminate()
        server.shutdown()
    if found:
        sys.exit("\n".join([*found, "wider than their windows"]))
    print(f"{len(pages)} pages fit windows of {', '.join(map(str, WIDTHS))} pixels")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
