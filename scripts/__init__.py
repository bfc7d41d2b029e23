"""What `make` runs to write reference pages and to start everything."""
