"""Where load runs."""
