"""Benchmarks; each compares with other implementations in the same run."""
