"""Sources: listing a folder, a glob, a manifest or an object store, and recognizing changed contents."""
