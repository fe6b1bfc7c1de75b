"""Replays (rules A9, A10, X3): what to ask a classifier again, and what its answers prove. No sandbox, no clock."""
