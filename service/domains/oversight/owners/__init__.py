"""Giving resources another owner, and offboarding the people who leave."""
