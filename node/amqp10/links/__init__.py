"""Links of AMQP 1.0: one module for each kind of link that a client attaches."""
