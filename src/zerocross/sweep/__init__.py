"""Many trainings and searches: cached by a hash of their settings, run on this machine or on a cluster."""
