import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** One session of RabbitMQ's Java client: Session URL NAME. Each step prints a line `key value`. */
public final class Session {
    private static final int COUNT = 500;
    private static final long WAIT_S = 20;

    private final Connection connection;
    private final String name;

    private Session(Connection connection, String name) {
        this.connection = connection;
        this.name = name;
    }

    public static void main(String[] arguments) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(arguments[0]);
        Connection connection = factory.newConnection("java-session");
        Session session = new Session(connection, arguments[1]);
        session.confirms();
        session.fairShares();
        session.nacks();
        session.transactions();
        session.returns();
        session.cancelNotification();
        session.channelErrors();
        connection.close();
        say("closed", connection.getCloseReason().isInitiatedByApplication());
    }

    private static void say(String key, Object value) {
        System.out.println(key + " " + value);
    }

    /** What a consumer got, in order. */
    private static final class Inbox extends DefaultConsumer {
        final BlockingQueue<Envelope> envelopes = new LinkedBlockingQueue<>();
        final List<String> bodies = new ArrayList<>();
        final BlockingQueue<String> cancelled = new LinkedBlockingQueue<>();

        Inbox(Channel channel) {
            super(channel);
        }

        @Override
        public void handleDelivery(
                String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body) {
            bodies.add(new String(body));
            envelopes.add(envelope);
        }

        @Override
        public void handleCancel(String tag) {
            cancelled.add(tag);
        }

        Envelope next() throws InterruptedException {
            Envelope envelope = envelopes.poll(WAIT_S, TimeUnit.SECONDS);
            if (envelope == null) {
                throw new IllegalStateException("nothing was delivered in " + WAIT_S + " s");
            }
            return envelope;
        }
    }

    private void confirms() throws Exception {
        Channel channel = connection.createChannel();
        channel.exchangeDeclare(name, BuiltinExchangeType.TOPIC, false, true, null);
        channel.queueDeclare(name, true, false, false, Map.of("x-max-length", 100_000));
        channel.queueBind(name, name, "orders.#");
        channel.confirmSelect();
        BlockingQueue<Boolean> multiples = new LinkedBlockingQueue<>();
        channel.addConfirmListener((tag, multiple) -> multiples.add(multiple), (tag, multiple) -> { });
        channel.basicPublish(name, "orders.new", MessageProperties.PERSISTENT_BASIC, "0".getBytes());
        say("single-is-multiple", multiples.poll(WAIT_S, TimeUnit.SECONDS));
        for (int number = 1; number < COUNT; number++) {
            byte[] body = String.valueOf(number).getBytes();
            channel.basicPublish(name, "orders.new", MessageProperties.PERSISTENT_BASIC, body);
        }
        channel.waitForConfirmsOrDie(WAIT_S * 1000);
        say("confirmed", channel.messageCount(name));
        Inbox inbox = new Inbox(channel);
        channel.basicQos(50);
        String tag = channel.basicConsume(name, false, inbox);
        boolean inOrder = true;
        for (int number = 0; number < COUNT; number++) {
            Envelope envelope = inbox.next();
            inOrder &= inbox.bodies.get(number).equals(String.valueOf(number));
            channel.basicAck(envelope.getDeliveryTag(), false);
        }
        say("in-order", inOrder);
        channel.basicCancel(tag);
        channel.close();
    }

    /** Three queues with a backlog under one limit of the channel: all of them are served. */
    private void fairShares() throws Exception {
        Channel channel = connection.createChannel();
        channel.basicQos(2, true);
        Inbox inbox = new Inbox(channel);
        List<String> queues = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            String queue = channel.queueDeclare().getQueue();
            queues.add(queue);
            for (int message = 0; message < 30; message++) {
                channel.basicPublish("", queue, null, new byte[10]);
            }
            channel.basicConsume(queue, false, inbox);
        }
        for (int message = 0; message < 30; message++) {
            channel.basicAck(inbox.next().getDeliveryTag(), false);
        }
        boolean shared = true;
        for (String queue : queues) {
            shared &= channel.messageCount(queue) <= 25;
        }
        say("shared", shared);
        channel.close();
    }

    private void nacks() throws Exception {
        Channel channel = connection.createChannel();
        channel.basicPublish("", name, null, "again".getBytes());
        GetResponse first = channel.basicGet(name, false);
        channel.basicNack(first.getEnvelope().getDeliveryTag(), false, true);
        GetResponse second = channel.basicGet(name, false);
        say("redelivered", second.getEnvelope().isRedeliver());
        channel.basicReject(second.getEnvelope().getDeliveryTag(), false);
        say("empty", channel.basicGet(name, false) == null);
        channel.close();
    }

    private void transactions() throws Exception {
        Channel channel = connection.createChannel();
        channel.txSelect();
        channel.basicPublish("", name, null, "undone".getBytes());
        channel.txRollback();
        channel.basicPublish("", name, null, "done".getBytes());
        channel.txCommit();
        say("committed", new String(channel.basicGet(name, true).getBody()));
        say("rolled-back", channel.basicGet(name, true) == null);
        channel.close();
    }

    private void returns() throws Exception {
        Channel channel = connection.createChannel();
        BlockingQueue<String> returned = new LinkedBlockingQueue<>();
        channel.addReturnListener(
                message -> returned.add(message.getReplyCode() + " " + message.getReplyText()));
        channel.basicPublish("", name + "-nowhere", true, null, "back".getBytes());
        say("returned", returned.poll(WAIT_S, TimeUnit.SECONDS));
        channel.close();
    }

    private void cancelNotification() throws Exception {
        Channel channel = connection.createChannel();
        Inbox inbox = new Inbox(channel);
        String tag = channel.basicConsume(name, false, inbox);
        channel.queueDelete(name);
        say("cancelled", tag.equals(inbox.cancelled.poll(WAIT_S, TimeUnit.SECONDS)));
        say("open", channel.isOpen());
        channel.close();
    }

    private void channelErrors() throws Exception {
        say("missing", codeOf(channel -> channel.queueDeclarePassive(name + "-missing")));
        say("default-exchange", codeOf(channel -> channel.exchangeDeclarePassive("")));
        say("still-open", connection.isOpen());
    }

    private interface Call {
        void on(Channel channel) throws IOException;
    }

    private int codeOf(Call call) throws Exception {
        Channel channel = connection.createChannel();
        try {
            call.on(channel);
            return 0;
        } catch (IOException error) {
            ShutdownSignalException reason = (ShutdownSignalException) error.getCause();
            return ((AMQP.Channel.Close) reason.getReason()).getReplyCode();
        }
    }
}
