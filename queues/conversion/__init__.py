"""From one protocol's messages to the other's: without I/O, without state.

A message is stored in the form of its publisher and converted when it is delivered to a client that
speaks the other protocol. `to_amqp091` and `to_amqp10` take whole messages; `values` has the rules
for single values. What a rule drops is dropped silently, as RabbitMQ does, and so is what cannot be
read: only sizes are sure of a stored message, and an error here would end the turn, and the node.
"""
