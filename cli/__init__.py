"""The command line, `carrel`: operators and scheduled jobs work through the SDK and the flows. `cli.screen` shows
results; `cli.outcome` ends a command."""
