"""The stores of ledgers and blobs. `base` defines their interfaces."""
