"""Text functions without a database: extraction from files, sentences, chunks, embeddings, language models."""
