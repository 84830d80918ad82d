"""Methods side by side: the same network, data and budget."""
