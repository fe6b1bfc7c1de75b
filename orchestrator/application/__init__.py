"""The use cases: what a command, a page or a request of the API does, one folder for each thing that is acted on."""
