"""What this machine has of what zerocross uses, and the command that adds what is missing; torch is not needed."""

from __future__ import annotations

from zerocross.doctor.examination import examine
from zerocross.doctor.finding import Diagnosis, healthy, render

__all__ = ["Diagnosis", "examine", "healthy", "render"]
