"""Experiments: many runs, each cached by the hash of its config, and what is read off them together."""
