"""Where the record is kept. `base` says what a ledger and a blob store owe."""
