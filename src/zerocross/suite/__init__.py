"""Compare methods: the same networks, data and budgets for all of them."""
