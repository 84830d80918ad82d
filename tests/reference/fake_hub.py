"""A model hub on 127.0.0.1 that implements the part of Hugging Face's protocol that small files need.

It is modelled on the requests that huggingface_hub sends: repositories are created, every file is uploaded inside the
commit ("regular"), and downloaded by HEAD and GET with an ETag and the commit's hash.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_fake"
COMMIT = "0" * 39 + "1"
MAX_REQUESTS = 200  # per test


@dataclass
class Hub:
    """Repositories by name, each a dict of files, and the received requests."""

    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    address: str = ""
    broken: int = 0  # status of every response, if not 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def hub(self) -> Hub:
        return self.server.hub  # type: ignore[attr-defined]

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def give(self, value: Any, status: int = 200) -> None:
        self.answer(status, json.dumps(value).encode(), Content_Type="application/json")

    def refused(self) -> bool:
        self.hub.requests.append(f"{self.command} {self.path}")
        if self.hub.broken or len(self.hub.requests) > MAX_REQUESTS:
            self.answer(self.hub.broken or 429)
            return True
        return False

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if self.refused():
            return
        repo, _, rest = self.path.lstrip("/").partition("/resolve/")
        files, name = self.hub.repos.get(repo), rest.partition("/")[2]
        if files is None:
            self.answer(404, X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
            return
        commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        if name not in files:
            self.answer(404, X_Error_Code="EntryNotFound", X_Error_Message="Entry not found", X_Repo_Commit=commit)
            return
        self.answer(200, files[name], ETag=f'"{hashlib.sha1(files[name]).hexdigest()}"', X_Repo_Commit=commit)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.refused():
            return
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.give({"error": "Invalid credentials"}, 401)
        elif self.path == "/api/repos/create":
            request = json.loads(body)
            repo = f"{request['organization']}/{request['name']}"
            known = repo in self.hub.repos
            self.hub.repos.setdefault(repo, {})
            self.give({"url": f"{self.hub.address}/{repo}"}, 409 if known else 200)
        elif self.path == "/api/validate-yaml":
            valid = json.loads(body)["content"].startswith("---\n")
            self.give({"errors": [] if valid else [{"message": "no metadata"}], "warnings": []})
        elif "/preupload/" in self.path:
            names = [file["path"] for file in json.loads(body)["files"]]
            self.give({"files": [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]})
        elif "/commit/" in self.path:
            self.commit(body)
        else:
            self.answer(404)

    def commit(self, body: bytes) -> None:
        repo = self.path.removeprefix("/api/models/").partition("/commit/")[0]
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "header":
                self.hub.messages.append(line["value"]["summary"])
            elif line["key"] == "file":
                self.hub.repos[repo][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        self.give({"commitUrl": f"{self.hub.address}/{repo}/commit/{COMMIT}", "commitOid": COMMIT})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep the test's output quiet."""


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.hub = hub  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
