import com.rabbitmq.stream.Address;
import com.rabbitmq.stream.ByteCapacity;
import com.rabbitmq.stream.Consumer;
import com.rabbitmq.stream.Environment;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import com.rabbitmq.stream.StreamException;
import com.rabbitmq.stream.StreamStats;
import com.rabbitmq.stream.compression.Compression;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;

/** RabbitMQ's Java client for streams does the usual things; one line for each, "STEP RESULT". */
public final class StreamSession {
  static final int COUNT = 500;
  // Of stream `java`: single messages, and batches with each compression.
  static final int TOTAL = (1 + Compression.values().length) * COUNT;

  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[1]);
    Address address = new Address(arguments[0], port);
    try (Environment environment =
        Environment.builder()
            .host(arguments[0])
            .port(port)
            .addressResolver(any -> address)
            .build()) {
      published(environment);
      named(environment);
      filtered(environment);
      tracked(environment);
      single(environment);
      superStream(environment);
      refused(environment);
    }
  }

  static void say(String step, Object result) {
    System.out.println(step + " " + result);
  }

  static boolean until(BooleanSupplier isSo) throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
    while (!isSo.getAsBoolean()) {
      if (System.nanoTime() > end) {
        return false;
      }
      Thread.sleep(5);
    }
    return true;
  }

  static byte[] bytes(int number) {
    return Integer.toString(number).getBytes(StandardCharsets.UTF_8);
  }

  static void send(Producer producer, int first, int end) throws InterruptedException {
    CountDownLatch confirmed = new CountDownLatch(end - first);
    for (int number = first; number < end; number++) {
      producer.send(
          producer
              .messageBuilder()
              .properties()
              .messageId(number)
              .messageBuilder()
              .applicationProperties()
              .entry("region", number % 4 == 0 ? "west" : "east")
              .messageBuilder()
              .addData(bytes(number))
              .build(),
          status -> {
            if (status.isConfirmed()) {
              confirmed.countDown();
            }
          });
    }
    if (!confirmed.await(30, TimeUnit.SECONDS)) {
      throw new IllegalStateException(confirmed.getCount() + " messages are not confirmed");
    }
  }

  static void published(Environment environment) throws Exception {
    environment.streamCreator().stream("java").maxLengthBytes(ByteCapacity.GB(1)).create();
    int sent = COUNT;
    try (Producer producer = environment.producerBuilder().stream("java").build()) {
      send(producer, 0, COUNT);
    }
    for (Compression compression : Compression.values()) {
      try (Producer producer =
          environment.producerBuilder().stream("java")
              .subEntrySize(50)
              .compression(compression)
              .build()) {
        send(producer, sent, sent + COUNT);
      }
      sent += COUNT;
    }
    ConcurrentLinkedQueue<String> found = new ConcurrentLinkedQueue<>();
    AtomicInteger wrong = new AtomicInteger();
    Consumer consumer =
        environment.consumerBuilder().stream("java")
            .offset(OffsetSpecification.first())
            .messageHandler(
                (context, message) -> {
                  String body = new String(message.getBodyAsBinary(), StandardCharsets.UTF_8);
                  if (!body.equals(Long.toString(context.offset()))
                      || message.getProperties().getMessageIdAsLong() != context.offset()) {
                    wrong.incrementAndGet();
                  }
                  found.add(body);
                })
            .build();
    say("read", until(() -> found.size() == TOTAL) + "," + wrong.get());
    consumer.close();
    StreamStats stats = environment.queryStreamStats("java");
    say("stats", stats.firstOffset() + "," + (stats.committedChunkId() < TOTAL));
  }

  static void named(Environment environment) throws Exception {
    environment.streamCreator().stream("named").create();
    for (int round = 0; round < 2; round++) {
      try (Producer producer =
          environment.producerBuilder().stream("named").name("shop").build()) {
        say("last-id-" + round, producer.getLastPublishingId());
        CountDownLatch confirmed = new CountDownLatch(10 + round);
        for (int number = 0; number < 10 + round; number++) {
          producer.send(
              producer.messageBuilder().publishingId(number).addData(bytes(number)).build(),
              status -> confirmed.countDown());
        }
        confirmed.await(30, TimeUnit.SECONDS);
      }
    }
    ConcurrentLinkedQueue<Long> last = new ConcurrentLinkedQueue<>();
    Consumer consumer =
        environment.consumerBuilder().stream("named")
            .offset(OffsetSpecification.first())
            .messageHandler(
                (context, message) -> {
                  if (new String(message.getBodyAsBinary(), StandardCharsets.UTF_8).equals("10")) {
                    last.add(context.offset());
                  }
                })
            .build();
    until(() -> !last.isEmpty());
    say("appended", last.peek());
    consumer.close();
  }

  static void filtered(Environment environment) throws Exception {
    environment.streamCreator().stream("regions").create();
    try (Producer producer =
        environment.producerBuilder().stream("regions")
            .filterValue(message -> message.getApplicationProperties().get("region").toString())
            .build()) {
      send(producer, 0, 40);
    }
    ConcurrentLinkedQueue<Object> found = new ConcurrentLinkedQueue<>();
    Consumer consumer =
        environment.consumerBuilder().stream("regions")
            .offset(OffsetSpecification.first())
            .filter()
            .values("west")
            .postFilter(message -> message.getApplicationProperties().get("region").equals("west"))
            .builder()
            .messageHandler((context, message) -> found.add(context.offset()))
            .build();
    say("filtered", until(() -> found.size() == 10));
    consumer.close();
  }

  static void tracked(Environment environment) throws Exception {
    ConcurrentLinkedQueue<Long> found = new ConcurrentLinkedQueue<>();
    for (int round = 0; round < 2; round++) {
      found.clear();
      Consumer consumer =
          environment.consumerBuilder().stream("java")
              .name("reader")
              .offset(OffsetSpecification.first())
              .manualTrackingStrategy()
              .builder()
              .messageHandler(
                  (context, message) -> {
                    found.add(context.offset());
                    if (context.offset() == 99) {
                      context.storeOffset();
                    }
                  })
              .build();
      until(() -> found.size() >= 100);
      say("tracked-" + round, found.peek());
      Consumer asked = consumer;
      until(() -> asked.storedOffset() == 99);
      consumer.close();
    }
  }

  static Consumer alone(Environment environment, ConcurrentLinkedQueue<Long> found) {
    return environment.consumerBuilder().stream("java")
        .name("alone")
        .singleActiveConsumer()
        .offset(OffsetSpecification.first())
        .autoTrackingStrategy()
        .messageCountBeforeStorage(10)
        .flushInterval(Duration.ofSeconds(2))
        .builder()
        .messageHandler((context, message) -> found.add(context.offset()))
        .build();
  }

  static void single(Environment environment) throws Exception {
    ConcurrentLinkedQueue<Long> first = new ConcurrentLinkedQueue<>();
    ConcurrentLinkedQueue<Long> second = new ConcurrentLinkedQueue<>();
    Consumer one = alone(environment, first);
    until(() -> first.size() == TOTAL);
    Consumer other = alone(environment, second);
    say("active", first.size() + "," + second.size());
    one.close();
    try (Producer producer = environment.producerBuilder().stream("java").build()) {
      send(producer, TOTAL, TOTAL + 5);
    }
    say("next", until(() -> second.contains(TOTAL + 4L)) + "," + second.peek());
    other.close();
  }

  static void superStream(Environment environment) throws Exception {
    environment.streamCreator().name("orders").superStream().partitions(3).creator().create();
    try (Producer producer =
        environment.producerBuilder().superStream("orders")
            .routing(message -> message.getProperties().getMessageIdAsString())
            .producerBuilder()
            .build()) {
      CountDownLatch confirmed = new CountDownLatch(90);
      for (int number = 0; number < 90; number++) {
        producer.send(
            producer.messageBuilder().properties().messageId("customer " + number)
                .messageBuilder().addData(bytes(number)).build(),
            status -> confirmed.countDown());
      }
      confirmed.await(30, TimeUnit.SECONDS);
    }
    ConcurrentLinkedQueue<String> found = new ConcurrentLinkedQueue<>();
    ConcurrentLinkedQueue<String> streams = new ConcurrentLinkedQueue<>();
    List<Consumer> consumers =
        List.of(grouped(environment, found, streams), grouped(environment, found, streams));
    say("shared", until(() -> found.stream().distinct().count() == 90));
    say("partitions", streams.stream().distinct().count());
    consumers.forEach(Consumer::close);
    environment.deleteSuperStream("orders");
    say("deleted", !environment.streamExists("orders-0"));
  }

  static Consumer grouped(
      Environment environment,
      ConcurrentLinkedQueue<String> found,
      ConcurrentLinkedQueue<String> streams) {
    return environment.consumerBuilder().superStream("orders")
        .name("team")
        .singleActiveConsumer()
        .offset(OffsetSpecification.first())
        .messageHandler(
            (context, message) -> {
              streams.add(context.stream());
              found.add(message.getProperties().getMessageIdAsString());
            })
        .build();
  }

  static void refused(Environment environment) {
    say("exists", environment.streamExists("java") + "," + environment.streamExists("none"));
    try {
      environment.consumerBuilder().stream("none").messageHandler((c, m) -> {}).build();
      say("missing", "none");
    } catch (StreamException error) {
      say("missing", error.getClass().getSimpleName());
    }
    for (String stream : List.of("java", "named", "regions")) {
      environment.deleteStream(stream);
    }
    say("closed", "true");
  }
}
