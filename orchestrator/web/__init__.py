"""The web service: a contest as a site, with pages, accounts and an API.

A Django project over one contest. Its own database holds only what may be deleted: people and their addresses,
sessions, invitations, tokens, uploads that are under way. Everything that belongs to the contest is in the contest's
ledger, and every act goes through the same use case as the command line and leaves the same event.
"""
