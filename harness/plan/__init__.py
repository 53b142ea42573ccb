"""Targets, shares, schedule: the plan of a run, and every reason to refuse one."""
