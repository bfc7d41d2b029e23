"""Documents: loaded into the catalog, put into collections, kept up to date from their sources."""
