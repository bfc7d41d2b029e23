"""Which agents are deployed to a reader."""
