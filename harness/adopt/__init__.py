"""Runs that were saved elsewhere, taken in byte for byte: ``adopt``."""

from harness.adopt.adoption import Adopted, adopt

__all__ = ["Adopted", "adopt"]
