"""Networks as C99 files."""
