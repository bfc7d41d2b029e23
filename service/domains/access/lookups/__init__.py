"""Whether and why a principal can read a resource, and which resources a principal can read."""
