// What a policy may say, for its form: the kind of each value, what it is for, what it means.
//
// kind: number (a whole one), fraction, text, flag, json, or a list of the words that it can be.
// `operator`: also in operator policies, which have the last word.
// `streams`: a key of queues that streams have as well.

export const KEYS = {
  "max-length": { kind: "number", is: "queues", operator: true, means: "most messages" },
  "max-length-bytes": {
    kind: "number", is: "queues", streams: true, operator: true, means: "most bytes",
  },
  "overflow": {
    kind: ["drop-head", "reject-publish", "reject-publish-dlx"],
    is: "queues", operator: true, means: "what happens when it is full",
  },
  "message-ttl": {
    kind: "number", is: "queues", operator: true, means: "lifetime of messages, ms",
  },
  "expires": {
    kind: "number", is: "queues", operator: true, means: "lifetime of an unused queue, ms",
  },
  "dead-letter-exchange": { kind: "text", is: "queues", means: "where dead letters go" },
  "dead-letter-routing-key": { kind: "text", is: "queues", means: "their key, if not their own" },
  "dead-letter-strategy": {
    kind: ["at-most-once", "at-least-once"],
    is: "quorum_queues", means: "whether a dead letter may get lost",
  },
  "delivery-limit": {
    kind: "number", is: "quorum_queues", operator: true, means: "most deliveries of a message",
  },
  "delivery-limit-counts": {
    kind: ["failed", "returned"],
    is: "quorum_queues", means: "whether requeues count as failed deliveries",
  },
  "delayed-retry-type": {
    kind: ["disabled", "all", "failed", "returned"],
    is: "quorum_queues", means: "what waits before it is delivered again",
  },
  "delayed-retry-min": { kind: "number", is: "quorum_queues", means: "its first delay, ms" },
  "delayed-retry-max": { kind: "number", is: "quorum_queues", means: "its longest delay, ms" },
  "consumer-timeout": { kind: "number", is: "queues", means: "longest time to acknowledge, ms" },
  "consumer-disconnected-timeout": {
    kind: "number", is: "quorum_queues", means: "how long messages of a lost node wait, ms",
  },
  "ha-mode": {
    kind: ["all", "exactly", "nodes"],
    is: "classic_queues", operator: true, means: "which nodes mirror a queue",
  },
  "ha-params": {
    kind: "json", is: "classic_queues", operator: true, means: "how many, or a list of names",
  },
  "ha-sync-mode": {
    kind: ["automatic", "manual"],
    is: "classic_queues", operator: true, means: "when a new mirror gets older messages",
  },
  "ha-sync-batch-size": {
    kind: "number", is: "classic_queues", operator: true, means: "messages in one step of that",
  },
  "ha-sync-nonblocking": {
    kind: "flag", is: "classic_queues", operator: true, means: "whether it is in use meanwhile",
  },
  "ha-promote-on-shutdown": {
    kind: ["always", "when-synced"],
    is: "classic_queues", operator: true, means: "which mirrors lead after an orderly stop",
  },
  "ha-promote-on-failure": {
    kind: ["always", "when-synced"],
    is: "classic_queues", operator: true, means: "which mirrors lead after a failure",
  },
  "max-size-bytes": { kind: "number", is: "all", means: "size at which an address is full" },
  "max-size-messages": { kind: "number", is: "all", means: "messages at which it is full" },
  "address-full-policy": {
    kind: ["PAGE", "BLOCK", "DROP", "FAIL"], is: "all", means: "what a full address does",
  },
  "max-size-bytes-reject-threshold": {
    kind: "number", is: "all", means: "with BLOCK: size above which publishes are refused",
  },
  "page-limit-bytes": { kind: "number", is: "all", means: "with PAGE: most bytes on top" },
  "page-limit-messages": { kind: "number", is: "all", means: "with PAGE: most messages on top" },
  "page-full-policy": { kind: ["DROP", "FAIL"], is: "all", means: "beyond the page limits" },
  "producer-max-rate": { kind: "number", is: "all", means: "messages a second of a publisher" },
  "producer-window-size": { kind: "number", is: "all", means: "bytes that a sender has under way" },
  "enable-ingress-timestamp": {
    kind: "flag", is: "all", means: "messages get the time at which the broker took them",
  },
  "amqp-credits": { kind: "number", is: "all", means: "credit of an AMQP 1.0 sender" },
  "amqp-low-credits": { kind: "number", is: "all", means: "credit at which it is granted again" },
  "consumer-window-size": {
    kind: "number", is: "queues", means: "most bytes that a consumer holds; 0: one message",
  },
  "consumer-max-rate": { kind: "number", is: "queues", means: "messages a second to a consumer" },
  "max-delivery-attempts": {
    kind: "number", is: "queues", means: "most deliveries of a message, requeues included",
  },
  "redelivery-delay": { kind: "number", is: "queues", means: "wait before a redelivery, ms" },
  "redelivery-delay-multiplier": {
    kind: "fraction", is: "queues", means: "factor of that wait for each further redelivery",
  },
  "redelivery-collision-avoidance-factor": {
    kind: "fraction", is: "queues", means: "share by which that wait varies, 0 to 1",
  },
  "max-redelivery-delay": { kind: "number", is: "queues", means: "longest such wait, ms" },
  "expiry-delay": {
    kind: "number", is: "queues", means: "lifetime of messages without an expiration, ms",
  },
  "min-expiry-delay": { kind: "number", is: "queues", means: "shortest lifetime, ms" },
  "max-expiry-delay": { kind: "number", is: "queues", means: "longest lifetime, ms" },
  "consumers-before-dispatch": {
    kind: "number", is: "queues", means: "consumers that there are before any is served",
  },
  "delay-before-dispatch": {
    kind: "number", is: "queues", means: "wait from the first consumer to the first delivery, ms",
  },
  "slow-consumer-threshold": {
    kind: "number", is: "queues", means: "messages a second that a consumer settles at least",
  },
  "slow-consumer-check-period": {
    kind: "number", is: "queues", means: "time between looks at that, s",
  },
  "slow-consumer-policy": {
    kind: ["notify", "kill"], is: "queues", means: "an event, or the consumer is closed",
  },
  "id-cache-size": {
    kind: "number", is: "queues", means: "ids of messages by which duplicates are found",
  },
  "last-value-key": {
    kind: "text", is: "queues", means: "header of which the newest value stays",
  },
  "non-destructive": {
    kind: "flag", is: "classic_queues", means: "consumers get copies, and messages stay",
  },
  "group-buckets": {
    kind: "number", is: "queues", means: "buckets of groups, each for one consumer",
  },
  "ring-size": { kind: "number", is: "queues", means: "most messages, of which the newest stay" },
  "queue-mode": {
    kind: ["default", "lazy"], is: "classic_queues", means: "lazy: bodies on disk alone",
  },
  "federation-upstream": { kind: "text", is: "all", means: "one upstream to federate from" },
  "federation-upstream-set": { kind: "text", is: "all", means: "upstream set; all: every one" },
  "federation-upstream-pattern": { kind: "text", is: "all", means: "upstreams by their names" },
  "queue-leader-locator": {
    kind: ["client-local", "balanced"],
    is: "queues", streams: true, means: "where a new queue is led",
  },
  "target-group-size": {
    kind: "number", is: "quorum_queues", operator: true, means: "members that it should have",
  },
  "leader-follows-traffic": {
    kind: ["off", "advise", "auto"],
    is: "quorum_queues", means: "whether the leader goes to where its clients are",
  },
  "max-in-memory-length": {
    kind: "number", is: "quorum_queues", operator: true, means: "most messages in memory",
  },
  "max-in-memory-bytes": {
    kind: "number", is: "quorum_queues", operator: true, means: "most bytes in memory",
  },
  "member-placement-tag": {
    kind: "text", is: "quorum_queues", operator: true, means: "nodes that get members",
  },
  "retroactive-message-count": {
    kind: "number", is: "exchanges", means: "newest messages that queues get that are bound later",
  },
  "max-age": { kind: "text", is: "streams", means: "how long messages stay, such as 7D or 12h" },
  "stream-max-segment-size-bytes": {
    kind: "number", is: "streams", means: "size of a segment, which goes as a whole",
  },
  "stream-offload": { kind: "flag", is: "streams", means: "old segments go to the object store" },
  "stream-local-max-bytes": {
    kind: "number", is: "streams", means: "bytes of files, if the object store has their segments",
  },
  "stream-filter-size-bytes": {
    kind: "number", is: "streams", means: "size of the Bloom filter of a chunk, 16 to 255",
  },
  "initial-cluster-size": { kind: "number", is: "streams", means: "members of a new stream" },
  "alternate-exchange": { kind: "text", is: "exchanges", means: "where unroutable messages go" },
};

const CLASSES = {
  all: ["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"],
  queues: ["all", "queues", "classic_queues", "quorum_queues", "streams"],
  classic_queues: ["all", "queues", "classic_queues"],
  quorum_queues: ["all", "queues", "quorum_queues"],
  streams: ["streams"],
  exchanges: ["all", "exchanges"],
};

/** Names of the keys that such a policy may have. */
export function keysFor(applyTo, isOperator) {
  return Object.keys(KEYS).filter((name) => {
    const key = KEYS[name];
    const isMeant = CLASSES[applyTo].includes(key.is) || (applyTo === "streams" && key.streams);
    return isMeant && (!isOperator || key.operator === true);
  });
}
