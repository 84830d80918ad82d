"""Timings, each printing a ratio against its rival in the same run."""
