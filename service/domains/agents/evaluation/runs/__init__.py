"""What runs over evaluation sets have measured, and how well replies are supported by what they cite."""
