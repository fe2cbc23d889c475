// One session of RabbitMQ's Go client for streams: a line for each thing that it saw.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/amqp"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/message"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"
)

const name = "go-orders"
const count = 1000

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func wait(what string, reached func() bool) {
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if reached() {
			return
		}
	}
	check(fmt.Errorf("%s is not reached", what))
}

func messages(first int) []message.StreamMessage {
	found := make([]message.StreamMessage, 0, count)
	for number := first; number < first+count; number++ {
		found = append(found, amqp.NewMessage([]byte(strconv.Itoa(number))))
	}
	return found
}

func publish(env *stream.Environment, options *stream.ProducerOptions, first int) {
	producer, err := env.NewProducer(name, options)
	check(err)
	var confirmed int64
	go func(confirms stream.ChannelPublishConfirm) {
		for some := range confirms {
			for _, one := range some {
				if one.IsConfirmed() {
					atomic.AddInt64(&confirmed, 1)
				}
			}
		}
	}(producer.NotifyPublishConfirmation())
	check(producer.BatchSend(messages(first)))
	wait("every confirm", func() bool { return atomic.LoadInt64(&confirmed) == count })
	check(producer.Close())
}

func consume(env *stream.Environment, options *stream.ConsumerOptions, want int64) int64 {
	var got, firstOffset int64 = 0, -1
	handle := func(context stream.ConsumerContext, message *amqp.Message) {
		offset := context.Consumer.GetOffset()
		atomic.CompareAndSwapInt64(&firstOffset, -1, offset)
		if string(message.GetData()) != strconv.FormatInt(offset, 10) {
			check(fmt.Errorf("offset %d is %q", offset, message.GetData()))
		}
		atomic.AddInt64(&got, 1)
	}
	consumer, err := env.NewConsumer(name, handle, options)
	check(err)
	wait("every message", func() bool { return atomic.LoadInt64(&got) == want })
	if options.ConsumerName != "" {
		check(consumer.StoreCustomOffset(42))
		wait("the stored offset", func() bool {
			stored, err := env.QueryOffset(options.ConsumerName, name)
			return err == nil && stored == 42
		})
	}
	check(consumer.Close())
	return atomic.LoadInt64(&firstOffset)
}

func main() {
	port, err := strconv.Atoi(os.Args[1])
	check(err)
	env, err := stream.NewEnvironment(stream.NewEnvironmentOptions().
		SetHost("127.0.0.1").SetPort(port).SetUser("guest").SetPassword("guest"))
	check(err)
	check(env.DeclareStream(name, stream.NewStreamOptions().SetMaxLengthBytes(stream.ByteCapacity{}.GB(1))))
	publish(env, stream.NewProducerOptions(), 0)
	compressed := stream.NewProducerOptions().SetSubEntrySize(100).
		SetCompression(stream.Compression{}.Gzip())
	publish(env, compressed, count)
	fmt.Println("confirmed", 2*count)
	first := stream.OffsetSpecification{}.First()
	fmt.Println("first", consume(env, stream.NewConsumerOptions().SetOffset(first), 2*count))
	at := stream.OffsetSpecification{}.Offset(1500)
	named := stream.NewConsumerOptions().SetOffset(at).SetConsumerName("shop").
		SetManualCommit()
	fmt.Println("offset", consume(env, named, 500))
	stats, err := env.StreamStats(name)
	check(err)
	begin, err := stats.FirstOffset()
	check(err)
	fmt.Println("stats", begin)
	exists, err := env.StreamExists(name)
	check(err)
	check(env.DeleteStream(name))
	gone, err := env.StreamExists(name)
	check(err)
	fmt.Println("exists", exists, gone)
	check(env.Close())
	fmt.Println("closed")
}
