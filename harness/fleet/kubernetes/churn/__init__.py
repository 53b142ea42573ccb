"""What is rolled, scaled and tried on a cluster while the load runs: a schedule that people edit, and who does it."""
