"""Quality: how well searches serve people, over time and on judged queries."""
