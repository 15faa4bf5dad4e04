"""The lowest layer of the ledger: its tables, their migrations, and single statements that read and write them."""
