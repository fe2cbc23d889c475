"""Bytes and values of AMQP 1.0: types, frames, performatives and the sections of a message."""
