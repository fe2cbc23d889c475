// A receiver of the npm package rhea with a selector: node selector.js HOST PORT QUEUE
// Sends messages with the property n = 1 to 10, takes those that its selector matches until a drain
// ends, and prints their numbers as JSON. Run from the folder whose node_modules holds rhea.
'use strict';
const { createRequire } = require('node:module');
const path = require('node:path');
const rhea = createRequire(path.join(process.cwd(), 'index.js'))('rhea');

const [host, port, queue] = process.argv.slice(2);
const address = `/queues/${queue}`;
const connection = rhea.create_container().connect({
  host, port: Number(port), username: 'guest', password: 'guest', reconnect: false,
});
const report = { selected: [], drained: false };
const sender = connection.open_sender(address);
let accepted = 0;

function receive() {
  const receiver = connection.open_receiver({
    source: { address, filter: rhea.filter.selector('n % 3 = 0') }, credit_window: 0,
  });
  receiver.on('message', (context) => report.selected.push(context.message.application_properties.n));
  receiver.on('receiver_drained', () => {
    report.drained = true;
    console.log(JSON.stringify(report));
    connection.close();
  });
  receiver.on('receiver_open', () => {
    receiver.drain_credit();
    receiver.add_credit(100);
  });
}

sender.once('sendable', () => {
  for (let n = 1; n <= 10; n += 1) sender.send({ application_properties: { n }, body: `${n}` });
});
sender.on('accepted', () => {
  accepted += 1;
  if (accepted === 10) receive();
});
