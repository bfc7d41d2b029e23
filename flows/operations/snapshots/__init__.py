"""Permission snapshots: who may read what at one moment, kept as Parquet, and what changed since the one before."""
