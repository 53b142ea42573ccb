"""Questions across runs: which runs there are, and SQL over the tables of all of them."""
