"""RabbitMQ's stream protocol: frames and chunks. No I/O."""
