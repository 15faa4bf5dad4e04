"""What a release says in sentences: its rules, its assumptions, its guarantee, and the names of its kinds."""
