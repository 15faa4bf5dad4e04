"""What each kind of diagnostic publishes: one class a result, which states the figures of the kind."""
