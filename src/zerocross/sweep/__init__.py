"""Many trainings and searches: each kept by the hash of what decides it, run on this machine or on a cluster."""
