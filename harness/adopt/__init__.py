"""Runs that were saved elsewhere, taken in byte for byte: ``adopt``."""

from harness.adopt.adoption import Adopted, adopt
from harness.adopt.source import check_words

__all__ = ["Adopted", "adopt", "check_words"]
