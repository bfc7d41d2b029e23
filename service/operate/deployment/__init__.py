"""The deployment's secret key, its rotation, and the mark of a restore that was cut off."""
