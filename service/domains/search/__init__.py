"""Search: the lexical and the dense leg, fusion, ranking, snippets, the search log."""
