"""The kinds of jobs by name, so that another process can run a job from plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zerocross.sweep import searches, short, trainings
from zerocross.sweep.job import Job

KINDS = {kind.name: kind for kind in (trainings.KIND, searches.KIND, short.KIND, short.BATCH)}


def job_from(values: Mapping[str, Any]) -> Job:
    """Return the Job of a dict from Job.to_dict()."""
    return Job(values["key"], KINDS[values["kind"]], values["label"], values["payload"])
