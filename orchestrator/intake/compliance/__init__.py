"""The trial match: before anybody is admitted, execution's own code asks a few pictures under the contest's limits.

A participant sees it as `sparring submission check`, the organizers' desk plays the same at `sparring submit`.
"""
