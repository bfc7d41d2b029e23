"""The command line, `carrel`: what an operator or a scheduled job does, through the SDK and the flows.

A command parses its options, calls the SDK, and shows what came of it; `cli.screen` is how it shows, `cli.outcome` how
it ends. It knows no more of the service than any other client does.
"""
