"""The deployment's secret key, rotation, and the mark of an interrupted restore."""
