"""Tests of answers: what is retrieved, what models may do, what is shown of what they say."""
