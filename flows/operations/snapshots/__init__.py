"""Permission snapshots: who may read what at a moment, stored as Parquet, with the changes since the last snapshot."""
