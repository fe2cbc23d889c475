// Who uses the page, and what is therefore offered. The broker decides; this only hides what it
// would refuse anyhow. Tags are RabbitMQ's.

let caller = { name: "", tags: [] };

export function setCaller(told) {
  caller = told || { name: "", tags: [] };
}

export function callerName() {
  return caller.name;
}

const has = (...tags) => tags.some((tag) => caller.tags.includes(tag));

export const may = {
  administer: () => has("administrator"),
  monitor: () => has("administrator", "monitoring"),
  setPolicies: () => has("administrator", "policymaker"),
  close: (connection) => has("administrator") || connection.user === caller.name,
};
