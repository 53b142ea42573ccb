"""Long load tests whose evidence is kept, turned into Parquet and graded by SQL."""

__version__ = "0.1.0"
