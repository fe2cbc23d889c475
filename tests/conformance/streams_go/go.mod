module streams

go 1.18

require github.com/rabbitmq/rabbitmq-stream-go-client v1.4.11
