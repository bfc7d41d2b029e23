"""Giving resources another owner, and offboarding people."""
