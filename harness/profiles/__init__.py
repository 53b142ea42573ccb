"""Profiles: how long a load lasts, and what is rolled meanwhile."""
