"""What operators, sensors, triggers and links have in common: the facts of a run, keys, errors, events and runners."""
