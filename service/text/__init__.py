"""Functions of texts, without a database: extraction from files, sentences, chunks, embeddings, language models."""
