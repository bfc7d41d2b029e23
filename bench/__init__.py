"""Benchmarks, which prove speed as ratios within one run."""
