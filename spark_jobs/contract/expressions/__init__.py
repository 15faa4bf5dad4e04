"""SQL expressions of an allow-list; each is computed from one row and cannot fail."""
