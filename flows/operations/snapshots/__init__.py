"""Permission snapshots: who may read what at one moment, kept as Parquet, with the changes since the last one."""
