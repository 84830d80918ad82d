"""The other side of jobs.py: a process that makes one run, and stops when nobody holds its standard input any more.

It reads one line of JSON, says its progress on standard error, and answers with one line of JSON.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any

from zerocross import train
from zerocross.sweep.cache import shelf_from
from zerocross.train.config import from_dict


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Make a run; what came of it."""
    config, shelf = from_dict(request["config"]), shelf_from(request["shelf"])
    try:
        shelf.finish(config, show=request["show"], say=lambda text: print(text, flush=True))
    except train.Stopped as stopped:
        return {"failed": str(stopped)}
    except train.RunError as failed:
        return {"failed": str(failed)}
    except OSError as failed:
        known = failed.errno is not None  # errors of ours have no number
        return {"os_error": [failed.errno, failed.strerror]} if known else {"refused": str(failed)}
    except ValueError as refused:
        return {"refused": str(refused)}
    return {"done": True}


def _stop_when_left_alone() -> None:
    """Wait until the process at the other end of standard input closes it or is gone, then stop as on a SIGTERM."""
    while os.read(0, 1):  # not sys.stdin, whose lock a waiting thread would hold at the end
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Entry point of the process."""
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_stop_when_left_alone, daemon=True).start()
    answers, sys.stdout = sys.stdout, sys.stderr
    logging.getLogger("lightning_fabric.utilities").setLevel(logging.WARNING)  # who is which rank
    answers.write(json.dumps(answer(request)) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
