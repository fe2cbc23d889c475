// One session of the npm package rhea: node session.js HOST PORT QUEUE COUNT, where HOST may
// be the URL of a WebSocket. Prints a JSON report.
// Run from the folder whose node_modules holds rhea. The queue holds one message of another client.
'use strict';
const { createRequire } = require('node:module');
const path = require('node:path');
const load = createRequire(path.join(process.cwd(), 'index.js'));
const rhea = load('rhea');

const [host, port, queue, wanted] = process.argv.slice(2);
const count = Number(wanted);
const address = `/queues/${queue}`;
const report = { accepted: 0, released: 0, received: [], missing: null, drained: null };
const place = host.startsWith('ws')
  ? { connection_details: rhea.websocket_connect(load('ws'))(host, ['binary', 'AMQPWSB10', 'amqp'], {}) }
  : { host, port: Number(port) };
const connection = rhea.create_container().connect({
  ...place, username: 'guest', password: 'guest', reconnect: false,
});

function publish() {
  return new Promise((resolve) => {
    const sender = connection.open_sender(address);
    let sent = 0;
    sender.on('sendable', () => {
      while (sent < count && sender.sendable()) {
        sent += 1;
        sender.send({
          message_id: sent, durable: true, subject: 's', application_properties: { n: sent },
          body: { list: [sent, 'two', true] },
        });
      }
    });
    sender.on('accepted', () => {
      report.accepted += 1;
      if (report.accepted === count) resolve(sender.close());
    });
  });
}

function publishNowhere() {
  return new Promise((resolve) => {
    const sender = connection.open_sender({ target: {} });
    sender.once('sendable', () => sender.send({ to: '/queues/rhea-nobody', body: 'x' }));
    sender.on('released', () => {
      report.released += 1;
      resolve(sender.close());
    });
  });
}

function consume(first) {
  return new Promise((resolve) => {
    const receiver = connection.open_receiver({ source: address, credit_window: 0, autoaccept: false });
    receiver.add_credit(count + first + 10);
    receiver.on('message', (context) => {
      report.received.push([context.message.message_id, context.message.body]);
      context.delivery.accept();
      if (report.received.length === count + first) receiver.drain_credit();
    });
    receiver.on('receiver_drained', () => {
      report.drained = receiver.credit;
      resolve(receiver.close());
    });
  });
}

function attachToNothing() {
  return new Promise((resolve) => {
    const receiver = connection.open_receiver('/queues/rhea-nobody');
    receiver.on('receiver_error', () => {
      report.missing = receiver.error.condition;
      resolve();
    });
  });
}

// A request whose reply comes to a queue that the broker made for this link.
function callBack() {
  return new Promise((resolve) => {
    const receiver = connection.open_receiver({ source: { dynamic: true } });
    receiver.once('receiver_open', () => {
      report.dynamic = receiver.source.address;
      const sender = connection.open_sender({ target: {} });
      sender.once('sendable', () => sender.send({ to: receiver.source.address, body: 'reply' }));
    });
    receiver.once('message', (context) => {
      report.reply = context.message.body;
      resolve(receiver.close());
    });
  });
}

// A message that is given back with annotations comes again with them.
function modify() {
  return new Promise((resolve) => {
    const receiver = connection.open_receiver({ source: address, credit_window: 0, autoaccept: false });
    const sender = connection.open_sender(address);
    sender.once('sendable', () => sender.send({ body: 'again' }));
    receiver.add_credit(2);
    receiver.once('message', (context) => {
      context.delivery.modified({ delivery_failed: true, message_annotations: { 'x-why': 'bad' } });
      receiver.once('message', (later) => {
        report.modified = later.message.message_annotations['x-why'];
        later.delivery.accept();
        resolve(receiver.close());
      });
    });
  });
}

connection.once('connection_open', async () => {
  await publish();
  await publishNowhere();
  await consume(1);
  await attachToNothing();
  await callBack();
  await modify();
  connection.close();
});
connection.on('connection_close', () => console.log(JSON.stringify(report)));
connection.on('disconnected', (context) => {
  if (context.error) process.exitCode = 1;
});
