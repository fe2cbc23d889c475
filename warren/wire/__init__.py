"""Sans-I/O codecs and connection state machines of the protocols that Warren speaks."""
