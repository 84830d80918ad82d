"""The paper's figures and tables, one a file: claims, configs and a run."""
