"""The catalog: uploading, listing, downloading and deleting documents."""
