"""SQL expressions of an allow-list: each looks at one row and cannot fail."""
