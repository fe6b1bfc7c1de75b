"""The image protocol without I/O: frames, messages, sessions and transcripts. Specification: schemas/protocol.md."""
