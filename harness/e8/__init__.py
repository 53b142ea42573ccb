"""E8: how many concurrent turns a tier of workers carries, asked in two arms that are never mixed."""
