"""What each kind of diagnostic publishes: a class for its result, which declares its figures."""
