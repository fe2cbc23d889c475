// Options of queues with the npm package amqplib: node options.js URL QUEUE. Prints a JSON report.
// Run from the folder whose node_modules holds amqplib.
'use strict';
const { createRequire } = require('node:module');
const path = require('node:path');
const amqp = createRequire(path.join(process.cwd(), 'index.js'))('amqplib');

const [url, queue] = process.argv.slice(2);
const report = {};

async function nextMessage(channel, name) {
  for (let tries = 0; tries < 500; tries += 1) {
    const message = await channel.get(name, { noAck: true });
    if (message) return message;
    await new Promise((resolve) => setTimeout(resolve, 10)); // The deadline is that of the loop.
  }
  throw new Error(`nothing came to ${name}`);
}

async function drain(channel, name) {
  const bodies = [];
  for (;;) {
    const message = await channel.get(name, { noAck: true });
    if (!message) return bodies;
    bodies.push(message.content.toString());
  }
}

async function deadLetters(connection) {
  const channel = await connection.createConfirmChannel();
  const { queue: dead } = await channel.assertQueue('', { exclusive: true });
  const onward = { deadLetterExchange: '', deadLetterRoutingKey: dead };
  const name = `${queue}-dies`;
  await channel.assertQueue(name, { autoDelete: true, messageTtl: 60000, expires: 60000, ...onward });
  channel.sendToQueue(name, Buffer.from('short'), { expiration: '50', headers: { mine: 1 } });
  await channel.waitForConfirms();
  const { headers } = (await nextMessage(channel, dead)).properties;
  const [death] = headers['x-death'];
  report.expired = [death.queue === name, death.reason, death.count, death['original-expiration'], headers.mine];
  await channel.deleteQueue(name);
  await channel.assertQueue(name, { maxLength: 2, ...onward });
  for (const body of ['1', '2', '3']) channel.sendToQueue(name, Buffer.from(body));
  await channel.waitForConfirms();
  report.dropped = (await nextMessage(channel, dead)).content.toString();
  report.kept = await drain(channel, name);
  await channel.deleteQueue(name);
  await channel.close();
}

async function priorities(connection) {
  const channel = await connection.createConfirmChannel();
  const name = `${queue}-priority`;
  await channel.assertQueue(name, { maxPriority: 10 });
  for (const priority of [1, 9, 5]) {
    channel.sendToQueue(name, Buffer.from(String(priority)), { priority });
  }
  await channel.waitForConfirms();
  report.byPriority = await drain(channel, name);
  const served = [];
  // amqplib tells of a cancelled consumer by a message that is null.
  await channel.consume(name, (message) => message && served.push('low'), { priority: -1, noAck: true });
  await new Promise((resolve) => {
    channel.consume(name, (message) => { if (message) served.push('high'); resolve(); }, { priority: 5, noAck: true })
      .then(() => channel.sendToQueue(name, Buffer.from('x')));
  });
  report.served = served;
  await channel.deleteQueue(name);
  await channel.close();
}

async function copies(connection) {
  const channel = await connection.createConfirmChannel();
  const { queue: first } = await channel.assertQueue('', { exclusive: true });
  const { queue: second } = await channel.assertQueue('', { exclusive: true });
  channel.sendToQueue(first, Buffer.from('x'), { CC: [second] });
  await channel.waitForConfirms();
  report.copies = [await drain(channel, first), await drain(channel, second)];
  await channel.close();
}

async function directReply(connection) {
  const channel = await connection.createChannel();
  const { queue: service } = await channel.assertQueue('', { exclusive: true });
  await channel.consume(service, (message) => {
    const { replyTo, correlationId } = message.properties;
    channel.sendToQueue(replyTo, Buffer.from(`answer to ${message.content}`), { correlationId });
  }, { noAck: true });
  report.reply = await new Promise((resolve) => {
    channel.consume('amq.rabbitmq.reply-to', (message) => {
      resolve([message.content.toString(), message.properties.correlationId]);
    }, { noAck: true }).then(() => channel.sendToQueue(service, Buffer.from('question'), {
      replyTo: 'amq.rabbitmq.reply-to', correlationId: 'c-1',
    }));
  });
  await channel.close();
}

async function main() {
  const connection = await amqp.connect(url);
  await deadLetters(connection);
  await priorities(connection);
  await copies(connection);
  await directReply(connection);
  await connection.close();
  console.log(JSON.stringify(report));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
