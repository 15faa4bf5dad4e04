"""Where releases are stored: objects that are created once, their layout, and their seals until publication."""
