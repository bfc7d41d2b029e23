"""Access classes: sets of readers that many resources share."""
