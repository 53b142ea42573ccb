"""The process that drives all engines of a load: ``python -m harness.driver``."""
