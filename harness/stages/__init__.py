"""One module per stage: ``reads`` and ``makes`` name files, ``work`` does it and returns what the receipt says."""
