// Opens, publishes with confirms and closes, again and again: node closing.js URL QUEUE TIMES.
// Prints a JSON report. Run from the folder whose node_modules holds amqplib.
'use strict';
const { createRequire } = require('node:module');
const path = require('node:path');
const amqp = createRequire(path.join(process.cwd(), 'index.js'))('amqplib');

const [url, queue, times] = process.argv.slice(2);
const report = { closed: 0, errors: [] };

async function session() {
  const connection = await amqp.connect(url);
  connection.on('error', (error) => report.errors.push(String(error)));
  const channel = await connection.createChannel();
  await channel.assertQueue(queue, { durable: true });
  for (let i = 0; i < 50; i += 1) channel.sendToQueue(queue, Buffer.alloc(1000));
  await connection.close(); // The publishes may still be under way.
  report.closed += 1;
}

async function main() {
  for (let i = 0; i < Number(times); i += 1) await session();
  console.log(JSON.stringify(report));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
