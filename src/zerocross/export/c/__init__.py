"""Export to C99."""
