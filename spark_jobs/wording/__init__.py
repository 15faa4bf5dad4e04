"""What a release says in sentences: its rules, assumptions and promise, and what its kinds are called."""
