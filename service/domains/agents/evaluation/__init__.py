"""Evaluation sets: questions with judged documents, and the measurements of runs."""
