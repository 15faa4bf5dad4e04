"""SQL as a way to ask for a table of aggregates, and to read the answer from what was released."""
