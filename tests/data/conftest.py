import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Handler(BaseHTTPRequestHandler):
    """/good/FILE is the file; every other first part of the path is a fault."""

    def do_GET(self):
        _, fault, name = self.path.split("/")
        content = self.server.files[name]
        if fault == "absent":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if fault == "cut":
            content = content[: len(content) // 2]
        if fault == "wrong":
            content = content[::-1]
        try:
            self.send_body(fault, content)
        except ConnectionError:
            pass  # the client has heard enough

    def send_body(self, fault, content):
        if fault == "slow":  # long enough for another process to come between
            for byte in range(0, len(content), 1 + len(content) // 10):
                self.wfile.write(content[byte : byte + 1 + len(content) // 10])
                self.wfile.flush()
                time.sleep(0.02)
        elif fault == "stuck":
            self.wfile.write(content[:100])
            self.wfile.flush()
            self.server.asked.set()
            self.server.released.wait(60)
        else:
            self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def file_server(monkeypatch):
    """A server of `files` (name to bytes) at `address`, without a proxy."""
    monkeypatch.setenv("no_proxy", "*")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.files = {}
        running.asked, running.released = threading.Event(), threading.Event()
        running.address = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.released.set()
        running.shutdown()
        thread.join()
