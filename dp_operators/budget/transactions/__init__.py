"""The middle layer of the ledger: changes that are made wholly or not at all, and the verification of their log."""
