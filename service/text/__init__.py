"""Work on texts alone: extraction from files, sentences, chunks, embeddings, language models."""
