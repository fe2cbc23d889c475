import com.rabbitmq.stream.Address;
import com.rabbitmq.stream.ByteCapacity;
import com.rabbitmq.stream.Consumer;
import com.rabbitmq.stream.Environment;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What RabbitMQ's Java client gets out of a broker, as stream PerfTest would measure it: one
 * publisher in batches of 100, and one consumer at the tail. Prints "CONFIRMED/s CONSUMED/s".
 */
public final class StreamRate {
  static final int WINDOW = 10_000;

  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[0]);
    int size = Integer.parseInt(arguments[1]);
    double seconds = Double.parseDouble(arguments[2]);
    Address address = new Address("127.0.0.1", port);
    try (Environment environment =
        Environment.builder()
            .host("127.0.0.1")
            .port(port)
            .addressResolver(any -> address)
            .build()) {
      environment.streamCreator().stream("rate").maxLengthBytes(ByteCapacity.GB(20)).create();
      AtomicLong confirmed = new AtomicLong();
      AtomicLong consumed = new AtomicLong();
      Consumer consumer =
          environment.consumerBuilder().stream("rate")
              .offset(OffsetSpecification.first())
              .messageHandler((context, message) -> consumed.incrementAndGet())
              .build();
      Producer producer =
          environment.producerBuilder().stream("rate")
              .batchSize(100)
              .maxUnconfirmedMessages(WINDOW)
              .build();
      byte[] body = new byte[size];
      Semaphore window = new Semaphore(WINDOW);
      long begun = System.nanoTime();
      long warm = begun + (long) (seconds * 0.5e9); // The compiler of Java has its time first.
      long end = warm + (long) (seconds * 1e9);
      long confirmedBefore = 0;
      long consumedBefore = 0;
      boolean isWarm = false;
      while (true) {
        long now = System.nanoTime();
        if (!isWarm && now >= warm) {
          isWarm = true;
          confirmedBefore = confirmed.get();
          consumedBefore = consumed.get();
        }
        if (now >= end) {
          break;
        }
        for (int number = 0; number < 100; number++) {
          window.acquire();
          producer.send(
              producer.messageBuilder().addData(body).build(),
              status -> {
                if (!status.isConfirmed()) {
                  throw new IllegalStateException("refused with code " + status.getCode());
                }
                confirmed.incrementAndGet();
                window.release();
              });
        }
      }
      System.out.printf(
          "%.0f %.0f%n",
          (confirmed.get() - confirmedBefore) / seconds, (consumed.get() - consumedBefore) / seconds);
      window.acquire(WINDOW);
      producer.close();
      consumer.close();
      environment.deleteStream("rate");
    }
  }
}
