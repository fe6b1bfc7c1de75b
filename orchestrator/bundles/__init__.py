"""What leaves the house: bundles that anybody can check, and receipts."""
