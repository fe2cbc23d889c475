using System;
using System.Collections;
using System.Text;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using RabbitMQ.Client.Exceptions;

/// One session over AMQP 0-9: Session HOST:PORT NAME. Each step prints a line `key value`.
public static class Session
{
    const int Count = 500, WaitMs = 20000;
    static IConnection connection;
    static string name;

    public static void Main(string[] arguments)
    {
        name = arguments[1];
        var factory = new ConnectionFactory { Address = arguments[0], Protocol = Protocols.AMQP_0_9 };
        connection = factory.CreateConnection();
        Say("capability", ((IDictionary)connection.ServerProperties["capabilities"])["basic.nack"]);
        Transactions();
        Returns();
        Redelivery();
        Say("missing", CodeOf(channel => Declare(channel, name + "-missing", true, true)));
        Say("inequivalent", CodeOf(channel => Declare(channel, name, false, false)));
        Say("default-exchange", CodeOf(channel => channel.ExchangeDelete("", false, false)));
        DeletedQueue();
        connection.Close();
        Say("closed", connection.CloseReason.Initiator + " " + connection.CloseReason.ReplyCode);
        connection = factory.CreateConnection();
        Say("immediate", CodeOf(channel => {
            channel.BasicPublish("", name, false, true, null, new byte[1]);
            channel.QueueDeclare();
        }));
        Say("open-after-immediate", connection.IsOpen);
        factory.Password = "wrong";
        try { factory.CreateConnection(); }
        catch (BrokerUnreachableException error)
        {
            foreach (Exception each in error.ConnectionErrors.Values) Say("login", each.GetType().Name);
        }
    }

    static void Say(string key, object value) { Console.WriteLine(key + " " + value); }

    static byte[] Bytes(object value) { return Encoding.UTF8.GetBytes(value.ToString()); }

    static string Text(object body) { return Encoding.UTF8.GetString((byte[])body); }

    static void Declare(IModel channel, string queue, bool passive, bool durable)
    {
        var options = new Hashtable { { "x-queue-type", "quorum" } };
        channel.QueueDeclare(queue, passive, durable, false, false, false, options);
    }

    static ushort CodeOf(Action<IModel> call)
    {
        try { call(connection.CreateModel()); }
        catch (OperationInterruptedException error) { return error.ShutdownReason.ReplyCode; }
        return 0;
    }

    static BasicDeliverEventArgs Next(QueueingBasicConsumer consumer)
    {
        object found;
        if (!consumer.Queue.Dequeue(WaitMs, out found)) throw new Exception("nothing was delivered");
        return (BasicDeliverEventArgs)found;
    }

    /// This client is older than confirms: the answer to a commit stands for them.
    static void Transactions()
    {
        var channel = connection.CreateModel();
        Declare(channel, name, false, true);
        channel.ExchangeDeclare(name, "topic", false, false, true, false, false, null);
        channel.QueueBind(name, name, "orders.#", false, null);
        channel.TxSelect();
        var properties = channel.CreateBasicProperties();
        properties.DeliveryMode = 2;
        properties.Headers = new Hashtable { { "text", "words" }, { "number", -7 }, { "decimal", 1.25m },
            { "time", new AmqpTimestamp(1700000000) }, { "table", new Hashtable { { "deep", 1 } } } };
        channel.BasicPublish(name, "orders.new", properties, Bytes("undone"));
        channel.TxRollback();
        for (int number = 0; number < Count; number++)
            channel.BasicPublish(name, "orders.new", properties, Bytes(number));
        channel.BasicPublish(name, "orders.new", properties, new byte[300000]);
        channel.TxCommit();
        channel.BasicQos(0, 50, false);
        var consumer = new QueueingBasicConsumer(channel);
        var tag = channel.BasicConsume(name, false, null, consumer);
        BasicDeliverEventArgs delivery = null;
        int inOrder = 0;
        for (int number = 0; number <= Count; number++)
        {
            delivery = Next(consumer);
            inOrder += Text(delivery.Body) == number.ToString() ? 1 : 0;
            channel.BasicAck(delivery.DeliveryTag, false);
            channel.TxCommit();
        }
        Say("in-order", inOrder);
        Say("large", delivery.Body.Length);
        var headers = delivery.BasicProperties.Headers;
        Say("headers", Text(headers["text"]) + " " + headers["number"] + " " + headers["decimal"] + " "
            + headers["time"] + " " + ((IDictionary)headers["table"])["deep"]);
        channel.BasicCancel(tag);
        channel.QueueUnbind(name, name, "orders.#", null); // The exchange is deleted with it.
        channel.Close();
        Say("unbound", CodeOf(each => each.ExchangeDeclare(name, "topic", true, false, false, false, false, null)));
    }

    /// What has no queue comes back before the answer to the commit.
    static void Returns()
    {
        var channel = connection.CreateModel();
        string returned = "nothing";
        channel.BasicReturn += (_, back) => returned = back.ReplyCode + " " + back.ReplyText + " " + Text(back.Body);
        channel.TxSelect();
        channel.BasicPublish("", name + "-nowhere", true, false, null, Bytes("stray"));
        channel.TxCommit();
        Say("returned", returned);
        channel.Close();
    }

    static void Redelivery()
    {
        var channel = connection.CreateModel();
        channel.BasicPublish("", name, null, Bytes("again"));
        var first = channel.BasicGet(name, false);
        channel.BasicRecover(true);
        var second = channel.BasicGet(name, false);
        Say("redelivered", first.Redelivered + " " + second.Redelivered + " " + Text(second.Body));
        channel.BasicReject(second.DeliveryTag, false);
        channel.Close();
    }

    /// No basic.cancel may come: this client did not announce consumer_cancel_notify, and would fail.
    static void DeletedQueue()
    {
        var channel = connection.CreateModel();
        channel.BasicConsume(name, false, null, new QueueingBasicConsumer(channel));
        Say("deleted", channel.QueueDelete(name, false, false, false));
        Say("usable", channel.QueueDeclare().StartsWith("amq.gen-"));
        channel.Close();
    }
}
