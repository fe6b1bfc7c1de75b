"""The web service: a contest as a site, with pages, accounts and an API.

A Django project for one contest. Its own database holds only data that may be deleted: people and their addresses,
sessions, invitations, tokens, unfinished uploads. Everything that belongs to the contest is in the contest's ledger.
Every act calls the same use case as the command line and appends the same event.
"""
