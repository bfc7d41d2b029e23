"""The index: chunks, vectors and terms of each document in each index space, and their maintenance."""
