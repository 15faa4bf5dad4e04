"""Turns a SQL statement into a request for a table of aggregates, and answers it from the released table."""
