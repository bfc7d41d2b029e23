"""Sources: what a folder, a glob, a manifest or an object store holds, and how its contents are told apart."""
