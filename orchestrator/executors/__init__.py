"""Where jobs run. One file per executor, found by name."""
