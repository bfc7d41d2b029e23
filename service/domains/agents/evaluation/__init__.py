"""Evaluation sets: questions with judged documents, and what runs over them have measured."""
