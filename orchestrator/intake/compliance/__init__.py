"""The trial match: before anybody is admitted, execution's own code asks a few pictures under the contest's limits.

A participant sees it as `sparring submission check`, `sparring submit` plays the same for the organizers.
"""
