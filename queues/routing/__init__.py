"""From exchange, routing key and headers to queues: exchange kinds, and the router of a vhost."""
