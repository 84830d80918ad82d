"""The figures and tables of the paper, one per file: claims, configs and a run."""
