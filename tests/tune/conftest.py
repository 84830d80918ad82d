"""A temporary PostgreSQL server for the tests, on loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


def programs() -> Path | None:
    """Return the folder of initdb and postgres: the newest of Debian's, or the one on the PATH."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    result = debian[-1] if debian else shutil.which("initdb")
    return Path(result).parent if result else None


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """Yield the URL of an empty database; skip the test if no server can be started."""
    where = programs()
    if where is None:
        pytest.skip("no PostgreSQL here: .ci/postgres installs it on Debian")
    pytest.importorskip("psycopg")
    owner = "postgres" if os.geteuid() == 0 else None  # the server refuses to run as root
    folder = Path(tempfile.mkdtemp(prefix="zerocross-postgres-"))
    server = None
    try:
        if owner is not None:
            shutil.chown(folder, owner)
        data, log = folder / "data", (folder / "log").open("wb")
        done = subprocess.run(
            [where / "initdb", "-D", data, "-U", "tuner", "--auth=trust", "--no-sync", "--encoding=UTF8"],
            user=owner, cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f"PostgreSQL's initdb fails here: {done.stderr.strip()[-200:]}")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = subprocess.Popen(
            [where / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", folder, "-F"],
            user=owner, cwd=folder, stdout=log, stderr=log,
        )  # fmt: skip
        url = f"postgresql://tuner@127.0.0.1:{port}/postgres"
        _wait(url, server, folder / "log")
        yield url
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)  # immediately; after SIGTERM it would wait for open connections
            server.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and server.poll() is None:
        try:
            psycopg.connect(url, connect_timeout=5).close()
        except psycopg.OperationalError:
            time.sleep(0.2)
        else:
            return
    pytest.skip(f"PostgreSQL does not start here: {log.read_text(errors='replace')[-300:]}")
