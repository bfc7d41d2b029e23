"""Tests of answers: retrieval, limits of models, and display of replies."""
