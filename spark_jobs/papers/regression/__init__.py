"""Methods for lines that a request selects by name; the default ones are in ``mechanisms.regression``."""
