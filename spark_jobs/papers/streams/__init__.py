"""PeGaSus, for one stream and for a hierarchy of streams."""
