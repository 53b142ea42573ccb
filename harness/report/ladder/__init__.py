"""The page of a ladder: its answer first, then its pictures, its rungs and what it rests on."""
