"""Python values for the AMQP 0-9-1 field kinds that Python has no type of its own for.

A decoded table must encode to the same bytes, so a number that did not come in its default kind
remembers it by its class. All of them are numbers: they compare and add as such. Not compiled,
for compiled classes cannot extend `int`.
"""


class Int8(int):
    """Kind `b`: signed, 8 bits."""

    __slots__ = ()


class UInt8(int):
    """Kind `B`: unsigned, 8 bits."""

    __slots__ = ()


class Int16(int):
    """Kind `s`: signed, 16 bits (RabbitMQ's reading; the standard says short string)."""

    __slots__ = ()


class UInt16(int):
    """Kind `u`: unsigned, 16 bits."""

    __slots__ = ()


class UInt32(int):
    """Kind `i`: unsigned, 32 bits."""

    __slots__ = ()


class Int64(int):
    """Kind `l`, where the value would also fit the default kind `I`."""

    __slots__ = ()


class Timestamp(int):
    """Kind `T`: seconds since 1970, unsigned, 64 bits."""

    __slots__ = ()


class Float32(float):
    """Kind `f`: a number that 32 bits hold exactly."""

    __slots__ = ()
