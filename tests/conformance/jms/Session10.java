import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Uses a queue as JMS applications do, and prints one line "NAME=values" for each step. */
public final class Session10 {
    private static final int WAIT_MS = 5000;
    private static final int SHORT_MS = 300;

    private final Connection connection;
    private final String address;

    private Session10(Connection connection, String address) {
        this.connection = connection;
        this.address = address;
    }

    public static void main(String[] arguments) throws Exception {
        String url = "amqp://" + arguments[0] + ":" + arguments[1] + "?jms.validatePropertyNames=false";
        JmsConnectionFactory factory = new JmsConnectionFactory("guest", "guest", url);
        factory.setClientID("jms-tests");
        try (Connection connection = factory.createConnection()) {
            connection.start();
            Session10 steps = new Session10(connection, "/queues/" + arguments[2]);
            steps.publish(150);
            steps.browse();
            steps.rollBack();
            steps.commit();
            steps.moveInOneTransaction();
            steps.closeWithoutCommit();
            steps.subscribe("/exchanges/amq.topic/" + arguments[2]);
            steps.select();
        }
    }

    private static void print(String name, Object values) {
        System.out.println(name + "=" + values);
    }

    private void publish(int count) throws JMSException {
        try (Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE)) {
            MessageProducer producer = session.createProducer(session.createQueue(address));
            for (int number = 0; number < count; number++) {
                producer.send(session.createTextMessage("m" + number));
            }
        }
    }

    private void browse() throws JMSException {
        List<String> found = browsed();
        print("browsed", found.size() + "," + found.get(0) + "," + found.get(found.size() - 1));
    }

    private List<String> browsed() throws JMSException {
        try (Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE)) {
            List<String> found = new ArrayList<>();
            Enumeration<?> messages = session.createBrowser(session.createQueue(address)).getEnumeration();
            while (messages.hasMoreElements()) {
                found.add(((TextMessage) messages.nextElement()).getText());
            }
            return found;
        }
    }

    private static String text(Message message) throws JMSException {
        return message == null ? "none" : ((TextMessage) message).getText();
    }

    private void rollBack() throws JMSException {
        try (Session session = connection.createSession(true, Session.SESSION_TRANSACTED)) {
            Queue queue = session.createQueue(address);
            session.createProducer(queue).send(session.createTextMessage("never"));
            MessageConsumer consumer = session.createConsumer(queue);
            String first = text(consumer.receive(WAIT_MS));
            session.rollback();
            Message again = consumer.receive(WAIT_MS);
            print("rolled", first + "," + text(again) + "," + again.getJMSRedelivered());
            session.rollback();
        }
    }

    private void commit() throws JMSException {
        try (Session session = connection.createSession(true, Session.SESSION_TRANSACTED)) {
            Queue queue = session.createQueue(address);
            MessageConsumer consumer = session.createConsumer(queue);
            for (int number = 0; number < 100; number++) {
                consumer.receive(WAIT_MS);
                if (number % 10 == 9) {
                    session.commit();
                }
            }
            consumer.close();
            MessageProducer producer = session.createProducer(queue);
            producer.send(session.createTextMessage("committed"));
            session.commit();
        }
        browse();
    }

    private void moveInOneTransaction() throws JMSException {
        try (Session session = connection.createSession(true, Session.SESSION_TRANSACTED)) {
            Queue queue = session.createQueue(address);
            Queue other = session.createQueue(address + "-other");
            MessageConsumer consumer = session.createConsumer(queue);
            MessageProducer producer = session.createProducer(other);
            producer.send(consumer.receive(WAIT_MS));
            MessageConsumer moved = session.createConsumer(other);
            String before = text(moved.receive(SHORT_MS));
            session.commit();
            print("moved", before + "," + text(moved.receive(WAIT_MS)));
            session.commit();
        }
    }

    private void subscribe(String address) throws JMSException {
        try (Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE)) {
            Topic topic = session.createTopic(address);
            MessageProducer producer = session.createProducer(topic);
            session.createDurableConsumer(topic, "orders").close();
            producer.send(session.createTextMessage("kept"));
            MessageConsumer durable = session.createDurableConsumer(topic, "orders");
            MessageConsumer other = session.createConsumer(topic);
            producer.send(session.createTextMessage("both"));
            String kept = text(durable.receive(WAIT_MS)) + "," + text(durable.receive(WAIT_MS));
            print("subscribed", kept + "," + text(other.receive(WAIT_MS)));
            durable.close();
            session.unsubscribe("orders");
            producer.send(session.createTextMessage("gone"));
            durable = session.createDurableConsumer(topic, "orders");
            print("unsubscribed", text(durable.receive(SHORT_MS)));
            durable.close();
            session.unsubscribe("orders");
        }
    }

    private void select() throws JMSException {
        try (Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE)) {
            Queue queue = session.createQueue(address + "-other");
            MessageProducer producer = session.createProducer(queue);
            for (int number = 0; number < 12; number++) {
                Message message = session.createTextMessage("s" + number);
                message.setStringProperty("color", number % 2 == 0 ? "red" : "blue");
                message.setIntProperty("number", number);
                message.setJMSCorrelationID("c" + number);
                message.setJMSType("order");
                producer.setPriority(number % 3 == 0 ? 8 : 2);
                producer.send(message);
            }
            print("urgent", selected(session, queue, "JMSPriority > 4 AND color = 'red' AND JMSType = 'order'"));
            print("between", selected(session, queue, "number NOT BETWEEN 2 AND 10 AND JMSDeliveryMode = 'PERSISTENT'"));
            print("correlated", selected(session, queue, "JMSCorrelationID IN ('c4', 'c5') AND missing IS NULL"));
            print("none", selected(session, queue, "color = 'green'"));
            print("rest", selected(session, queue, null));
        }
    }

    /** All messages that match, until an answered drain says that there are no more. */
    private static String selected(Session session, Queue queue, String selector) throws JMSException {
        List<String> found = new ArrayList<>();
        try (MessageConsumer consumer = session.createConsumer(queue, selector)) {
            for (Message next = consumer.receive(SHORT_MS); next != null; next = consumer.receiveNoWait()) {
                found.add(text(next));
            }
        }
        return String.join(",", found);
    }

    private void closeWithoutCommit() throws JMSException {
        try (Session session = connection.createSession(true, Session.SESSION_TRANSACTED)) {
            session.createConsumer(session.createQueue(address)).receive(WAIT_MS);
            session.createProducer(session.createQueue(address)).send(session.createTextMessage("lost"));
        }
        for (int tries = 0; tries < 100 && browsed().size() < 50; tries++) {
            Thread.onSpinWait(); // The end of a session does not wait for its queues.
        }
        browse();
    }
}
