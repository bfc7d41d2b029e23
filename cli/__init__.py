"""The command line, `carrel`: what an operator or a scheduled job does, through the SDK and the flows. `cli.screen` is
how a command shows what came of it, `cli.outcome` how it ends."""
