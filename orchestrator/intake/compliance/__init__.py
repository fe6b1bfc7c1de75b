"""The trial match before admission: the code that plays rounds asks about a few pictures under the contest's limits.

Participants play it with `sparring submission check`; `sparring submit` plays the same for the organizers.
"""
