"""The commands of ``harness``: each a few lines over a function of another room."""
