// A publisher of the npm package rhea that tells its link credit:
// node credit.js HOST PORT QUEUE CREDIT LOW COUNT
// Prints as JSON the credit that the broker grants first, what is left of it when all but LOW + 1
// are used, what it is once the broker grants again, and how many messages are accepted in the end.
// Run from the folder whose node_modules holds rhea.
'use strict';
const { createRequire } = require('node:module');
const path = require('node:path');
const rhea = createRequire(path.join(process.cwd(), 'index.js'))('rhea');

const [host, port, queue] = process.argv.slice(2);
const [credit, low, count] = process.argv.slice(5).map(Number);
const address = `/queues/${queue}`;
const connection = rhea.create_container().connect({
  host, port: Number(port), username: 'guest', password: 'guest', reconnect: false,
});
const sender = connection.open_sender(address);
let sent = 0;
let accepted = 0;

function send(wanted) {
  for (let left = wanted; left > 0; left -= 1) {
    sent += 1;
    sender.send({ durable: true, body: rhea.message.data_section(Buffer.from(`${sent}`)) });
  }
}

// Resolves when the condition holds after one of the events that are to come.
const when = (event, holds) => new Promise((resolve) => {
  const look = () => {
    if (!holds()) return;
    sender.removeListener(event, look);
    resolve();
  };
  sender.on(event, look);
});

// The broker answers an attach after all that it sends before: a flow would be here by then.
const roundTrip = () => new Promise((resolve) => {
  const other = connection.open_sender(address);
  other.once('sender_open', () => resolve(other.close()));
});

async function main() {
  const report = {};
  sender.on('accepted', () => { accepted += 1; });
  await when('sender_flow', () => sender.credit > 0);
  report.granted = sender.credit;
  send(credit - low - 1);
  await when('accepted', () => accepted === sent);
  await roundTrip();
  report.left = sender.credit;
  send(1);
  await when('sender_flow', () => sender.credit > low);
  report.again = sender.credit;
  send(count - sent); // rhea keeps those for which it has no credit.
  await when('accepted', () => accepted === count);
  report.accepted = accepted;
  console.log(JSON.stringify(report));
  connection.close();
}

main();
