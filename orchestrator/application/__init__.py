"""The use cases of commands, pages and the API, one folder for each thing that a person acts on."""
