"""Text from files, read in worker processes; other packages use `service.text.reading`."""

import os

# Set before openpyxl is imported, whether defusedxml is installed or not: packages.py refuses declarations, expat
# limits expansion, and defusedxml's Python parser takes three times as long.
os.environ.setdefault("OPENPYXL_DEFUSEDXML", "False")
