"""Where jobs run. One file per engine, found by name."""
