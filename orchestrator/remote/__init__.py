"""The command line's client for a contest's site: its API, stored tokens, and uploads that resume."""
