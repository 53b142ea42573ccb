"""Evidence → Parquet tables with declared schemas, and a reader of them for SQL."""
