"""Starting, following and cancelling the rebuild of an index."""
