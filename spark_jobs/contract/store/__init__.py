"""Where releases lie: objects that are created once, their layout, and what is sealed until it is published."""
