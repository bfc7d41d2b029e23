"""Text from files, read in worker processes; other packages use `service.text.reading`."""

import os

# Decided here, before openpyxl is imported, and not by whether defusedxml happens to be installed: packages.py refuses
# declarations already, expat bounds expansion by itself, and defusedxml's parser in Python takes three times as long.
os.environ.setdefault("OPENPYXL_DEFUSEDXML", "False")
