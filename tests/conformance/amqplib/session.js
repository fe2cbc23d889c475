// One session of the npm package amqplib: node session.js URL QUEUE. Prints a JSON report.
// Run from the folder whose node_modules holds amqplib.
'use strict';
const { createRequire } = require('node:module');
const path = require('node:path');
const amqp = createRequire(path.join(process.cwd(), 'index.js'))('amqplib');

const [url, queue] = process.argv.slice(2);
const report = {};

function closedWith(channel) {
  return new Promise((resolve) => channel.once('error', (error) => resolve(error)));
}

async function roundTrip(connection) {
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue(queue, { durable: true });
  const bodies = Array.from({ length: 500 }, (_, i) => `message ${i + 1}`);
  for (const body of bodies) {
    channel.sendToQueue(queue, Buffer.from(body), {
      persistent: true, messageId: body, headers: { nested: { list: [1, 'two', true] } },
    });
  }
  await channel.waitForConfirms();
  report.confirmed = (await channel.checkQueue(queue)).messageCount;
  await channel.prefetch(20);
  const received = [];
  let headers = null;
  await new Promise((resolve) => {
    channel.consume(queue, (message) => {
      received.push(message.content.toString());
      headers = message.properties.headers;
      channel.ack(message);
      if (received.length === bodies.length) resolve();
    });
  });
  report.inOrder = JSON.stringify(received) === JSON.stringify(bodies);
  report.headers = headers;
  await channel.close();
}

async function returnsAndErrors(connection) {
  const channel = await connection.createConfirmChannel();
  const order = [];
  channel.on('return', (message) => order.push(`return ${message.fields.replyCode}`));
  await new Promise((resolve, reject) => {
    channel.publish('', `${queue}-nowhere`, Buffer.from('x'), { mandatory: true }, (error) => {
      order.push('confirm');
      if (error) reject(error); else resolve();
    });
  });
  report.order = order;
  const failing = await connection.createChannel();
  const closed = closedWith(failing);
  failing.checkQueue(`${queue}-nowhere`).catch(() => {});
  report.missing = (await closed).code;
  const other = await connection.createChannel();
  const refused = closedWith(other);
  other.assertQueue(queue, { durable: false }).catch(() => {});
  report.inequivalent = (await refused).message;
}

async function topicAndNack(connection) {
  const channel = await connection.createChannel();
  const exchange = `${queue}-topic`;
  await channel.assertExchange(exchange, 'topic', { autoDelete: true, durable: false });
  const own = (await channel.assertQueue('', { exclusive: true })).queue;
  await channel.bindQueue(own, exchange, 'a.*');
  channel.publish(exchange, 'a.b', Buffer.from('matches'));
  channel.publish(exchange, 'b.a', Buffer.from('does not'));
  const seen = [];
  await new Promise((resolve) => {
    channel.consume(own, (message) => {
      seen.push([message.content.toString(), message.fields.redelivered]);
      if (message.fields.redelivered) { channel.ack(message); resolve(); } else channel.nack(message);
    });
  });
  report.seen = seen;
  report.getEmpty = await channel.get(own);
}

(async () => {
  const connection = await amqp.connect(url);
  await roundTrip(connection);
  await returnsAndErrors(connection);
  await topicAndNack(connection);
  await connection.close();
  console.log(JSON.stringify(report));
})().catch((error) => { console.error(error); process.exit(1); });
