"""The command line, `carrel`, over the SDK and the flows. `cli.screen` shows results; `cli.outcome` ends a command."""
