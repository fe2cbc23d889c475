/* vgen - load that varies: routing keys, properties, sizes, connections, options. AMQP 0.9.1.
 *
 * bgen repeats one encoded message; vgen encodes each message anew. One thread, epoll, raw sockets.
 * Prints one JSON object like bgen's. See README.md for the options. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BODY_MAX 65536
#define MESSAGE_MAX (BODY_MAX + 1024)
#define OUT_MARK 65536                       /* Stop encoding when this much waits to be sent. */
#define OUT_BYTES (OUT_MARK + MESSAGE_MAX)
#define IN_BYTES 16384                       /* At first; grows to hold a whole frame. */
#define FRAME_MAX 131072

enum exchange { DEFAULT, FANOUT, TOPIC, HASH, HEADERS };

#define DEAD "vgen-dead"                     /* Where --dead-letters sends the dead. */
#define ARGUMENTS_MAX 8

struct connection {
  struct connection *line;                   /* --channels: the first channel has the socket. */
  int fd, channel, consumer, queue, waits_for_write, lost;
  uint8_t *in, *out;
  uint32_t in_bytes, in_len, out_from, out_to;
  uint64_t next_tag, lowest_open;            /* Publisher: tags not yet confirmed lie between. */
  uint64_t *sent_at;                         /* Ring by tag; 0 when confirmed. */
  uint64_t last_delivery, asked_at;          /* --get: when the basic.get was sent. */
  uint64_t settled_to;                       /* --leave: deliveries looked at. */
  uint32_t unacked;
};

static const char *host = "127.0.0.1", *user = "guest", *password = "guest";
static int port = 5672, queues = 1, bindings = 0, keys = 0, vary = 0, one_per_write = 0;
static int durable = 1, persistent = 1, connections = 1, channels = 1, consumers = 0, cleanup = 1;
static uint32_t window = 1000, ring, prefetch = 1000, ack_every = 100, size_min = 12, size_max = 12;
static enum exchange kind = DEFAULT;
static int priorities = 0, subscriptions = 0, get_mode = 0, mandatory = 0, dead_letters = 0;
static uint32_t expiration_min, expiration_max, expiration_every = 1, prefill;
static uint64_t leave, count_max;            /* --leave, --count */
static char *arguments[ARGUMENTS_MAX], *fixed_key;
static int argument_count;
static double duration = 10, warmup = 1, rate = 0;
static int pids[32], pid_count;
static struct connection *all;
static uint64_t sent, confirmed, nacked, returned, received, empty, random_state = 88172645463325252ull;
static uint8_t filler[BODY_MAX];
static int errors, drained;                  /* drained: a get found that --prefill is gone. */

static void die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("vgen: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(1);
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t next_random(void) {          /* xorshift64: the same sequence in every run. */
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  return random_state ^= random_state << 17;
}

/* Histogram by powers of two, each in 64 steps: 1.6 % resolution. */
static uint64_t buckets[64 * 64], bucket_total, slowest;

static void note_latency(uint64_t ns) {
  unsigned index = ns;
  if (ns >= 64) {
    unsigned exponent = 63 - __builtin_clzll(ns);
    index = (exponent - 5) * 64 + ((ns >> (exponent - 6)) & 63);
  }
  buckets[index]++;
  bucket_total++;
  if (ns > slowest) slowest = ns;
}

static double latency_ms(double part) {
  uint64_t wanted = part * bucket_total, seen = 0;
  for (unsigned i = 0; i < 64 * 64; i++) {
    seen += buckets[i];
    if (seen > wanted) {
      if (i < 64) return i / 1e6;
      unsigned exponent = i / 64 + 5;
      return ((1ull << exponent) + ((uint64_t)(i % 64) << (exponent - 6))) / 1e6;
    }
  }
  return slowest / 1e6;
}

/* Big-endian integers. */
static uint16_t get16(const uint8_t *p) { return p[0] << 8 | p[1]; }
static uint32_t get32(const uint8_t *p) { return (uint32_t)get16(p) << 16 | get16(p + 2); }
static uint64_t get64(const uint8_t *p) { return (uint64_t)get32(p) << 32 | get32(p + 4); }
static uint8_t *put8(uint8_t *p, unsigned v) { *p = v; return p + 1; }
static uint8_t *put16(uint8_t *p, unsigned v) { p[0] = v >> 8; p[1] = v; return p + 2; }
static uint8_t *put32(uint8_t *p, uint32_t v) { return put16(put16(p, v >> 16), v & 65535); }
static uint8_t *put64(uint8_t *p, uint64_t v) { return put32(put32(p, v >> 32), v); }
static uint8_t *put_bytes(uint8_t *p, const void *from, size_t n) { memcpy(p, from, n); return p + n; }
static uint8_t *put_short(uint8_t *p, const char *text) {
  size_t n = strlen(text);
  return put_bytes(put8(p, n), text, n);
}
static uint8_t *put_long(uint8_t *p, const char *text) {
  size_t n = strlen(text);
  return put_bytes(put32(p, n), text, n);
}

/* A frame is begun, filled and ended; its size is patched in at the end. */
static uint8_t *begin(uint8_t *p, int frame_kind, int channel) {
  return put32(put16(put8(p, frame_kind), channel), 0);
}
static uint8_t *end(uint8_t *p, uint8_t *start) {
  put32(start + 3, p - start - 7);
  return put8(p, 0xCE);
}
static uint8_t *begin_method(uint8_t *p, int channel, int class_id, int method_id) {
  return put16(put16(begin(p, 1, channel), class_id), method_id);
}

/* ---- set-up: blocking, one method at a time ---- */

static void send_all(struct connection *c, const uint8_t *from, size_t n) {
  while (n) {
    ssize_t done = send(c->fd, from, n, MSG_NOSIGNAL);
    if (done <= 0) die("send: %s", strerror(errno));
    from += done;
    n -= done;
  }
}

static void make_room(struct connection *c, uint32_t frame_bytes) {
  if (frame_bytes <= c->in_bytes) return;
  c->in_bytes = frame_bytes < FRAME_MAX + 8 ? FRAME_MAX + 8 : frame_bytes;
  c->in = realloc(c->in, c->in_bytes);
}

static void expect(struct connection *c, int class_id, int method_id) {
  for (;;) {
    while (c->in_len < 7 || c->in_len < get32(c->in + 3) + 8) {
      if (c->in_len >= 7) make_room(c, get32(c->in + 3) + 8);
      ssize_t n = read(c->fd, c->in + c->in_len, c->in_bytes - c->in_len);
      if (n <= 0) die("connection closed in set-up");
      c->in_len += n;
    }
    uint32_t bytes = get32(c->in + 3) + 8;
    int is_method = c->in[0] == 1, got_class = get16(c->in + 7), got_method = get16(c->in + 9);
    if (is_method && ((got_class == 10 && got_method == 50) || (got_class == 20 && got_method == 40)))
      die("closed by broker: %d %.*s", get16(c->in + 11), c->in[13], c->in + 14);
    memmove(c->in, c->in + bytes, c->in_len - bytes);
    c->in_len -= bytes;
    if (is_method && got_class == class_id && got_method == method_id) return;
  }
}

static void call(struct connection *c, uint8_t *buffer, uint8_t *p, int class_id, int method_id) {
  send_all(c, buffer, end(p, buffer) - buffer);
  expect(c, class_id, method_id);
}

static void open_connection(struct connection *c) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  uint8_t buffer[1024], *p;
  char login[256];
  int on = 1;
  c->line = c;
  c->channel = 1;
  inet_pton(AF_INET, host, &address.sin_addr);
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(c->fd, (void *)&address, sizeof address)) die("connect: %s", strerror(errno));
  c->in = malloc(c->in_bytes = IN_BYTES);
  c->out = malloc(OUT_BYTES);
  send_all(c, (const uint8_t *)"AMQP\0\0\x09\x01", 8);
  expect(c, 10, 10);
  p = put_short(put32(begin_method(buffer, 0, 10, 11), 0), "PLAIN");
  int n = snprintf(login, sizeof login, "%c%s%c%s", 0, user, 0, password);
  p = put_short(put_bytes(put32(p, n), login, n), "en_US");
  call(c, buffer, p, 10, 30);
  p = put16(put32(put16(begin_method(buffer, 0, 10, 31), 2047), FRAME_MAX), 0);
  send_all(c, buffer, end(p, buffer) - buffer);
  call(c, buffer, put16(put_short(begin_method(buffer, 0, 10, 40), "/"), 0), 10, 41);
  call(c, buffer, put8(begin_method(buffer, 1, 20, 10), 0), 20, 11);
}

/* Channel `number` of a connection that is open. */
static void open_channel(struct connection *c, struct connection *line, int number) {
  uint8_t buffer[64];
  c->line = line;
  c->channel = number;
  call(line, buffer, put8(begin_method(buffer, number, 20, 10), 0), 20, 11);
}

static void queue_name(char *name, int number) { sprintf(name, "vgen-%d", number); }

/* The arguments k=v of --qarg; a v that is a number is sent as one. */
static uint8_t *put_arguments(uint8_t *p, int dies_into_dead) {
  uint8_t *table = p;
  p = put32(p, 0);
  for (int i = 0; i < argument_count; i++) {
    char *value = strchr(arguments[i], '='), *rest, key[128];
    if (!value) die("--qarg KEY=VALUE");
    snprintf(key, sizeof key, "%.*s", (int)(value - arguments[i]), arguments[i]);
    long long number = strtoll(++value, &rest, 10);
    p = put_short(p, key);
    p = *value && !*rest ? put64(put8(p, 'l'), number) : put_long(put8(p, 'S'), value);
  }
  if (dies_into_dead) {
    p = put_long(put8(put_short(p, "x-dead-letter-exchange"), 'S'), "");
    p = put_long(put8(put_short(p, "x-dead-letter-routing-key"), 'S'), DEAD);
  }
  put32(table, p - table - 4);
  return p;
}

/* `header`: that it is true is wanted; 0: no arguments. */
static void bind_queue(struct connection *c, const char *queue, const char *exchange, const char *key,
                       const char *header) {
  uint8_t buffer[512], *p = put16(begin_method(buffer, 1, 50, 20), 0);
  uint8_t *table = put8(put_short(put_short(put_short(p, queue), exchange), key), 0);
  p = put32(table, 0);
  if (header) {
    p = put_long(put8(put_short(p, "x-match"), 'S'), "all");
    p = put8(put8(put_short(p, header), 't'), 1);
  }
  put32(table, p - table - 4);
  call(c, buffer, p, 50, 21);
}

static const char *exchange_name(void) {
  static const char *names[] = {"", "vgen-fanout", "vgen-topic", "vgen-hash", "vgen-headers"};
  return names[kind];
}

static const char *exchange_type(void) {
  static const char *types[] = {"", "fanout", "topic", "x-consistent-hash", "headers"};
  return types[kind];
}

static void delete_queue(struct connection *c, const char *name) {
  uint8_t buffer[512];
  call(c, buffer, put8(put_short(put16(begin_method(buffer, 1, 50, 40), 0), name), 0), 50, 41);
}

static void delete_all(struct connection *c) {
  uint8_t buffer[512];
  char name[64];
  for (int i = 0; i < queues; i++) {
    queue_name(name, i);
    delete_queue(c, name);
  }
  if (dead_letters) delete_queue(c, DEAD);
  if (kind != DEFAULT) {
    uint8_t *p = put_short(put16(begin_method(buffer, 1, 40, 20), 0), exchange_name());
    call(c, buffer, put8(p, 0), 40, 21);
  }
}

static void declare_all(struct connection *c) {
  uint8_t buffer[2048], *p;
  char name[64], key[64];
  if (kind != DEFAULT) {
    p = put_short(put16(begin_method(buffer, 1, 40, 10), 0), exchange_name());
    p = put_short(p, exchange_type());
    call(c, buffer, put32(put8(p, durable ? 2 : 0), 0), 40, 11);
  }
  for (int i = 0; i < queues; i++) {
    queue_name(name, i);
    p = put_short(put16(begin_method(buffer, 1, 50, 10), 0), name);
    call(c, buffer, put_arguments(put8(p, durable ? 2 : 0), dead_letters), 50, 11);
    if (kind == FANOUT) bind_queue(c, name, exchange_name(), "", 0);
    if (kind == HASH) bind_queue(c, name, exchange_name(), "1", 0);
    if (kind == HEADERS) bind_queue(c, name, exchange_name(), "", i % 2 ? "odd" : "even");
  }
  if (dead_letters) {
    p = put_short(put16(begin_method(buffer, 1, 50, 10), 0), DEAD);
    call(c, buffer, put32(put8(p, durable ? 2 : 0), 0), 50, 11);
  }
  for (int i = 0; kind == TOPIC && i < bindings; i++) {
    queue_name(name, i % queues);
    sprintf(key, i % 2 ? "t.%d.*" : "t.%d.#", i);
    bind_queue(c, name, exchange_name(), key, 0);
  }
}

static void become_publisher(struct connection *c) {
  uint8_t buffer[64];
  c->next_tag = c->lowest_open = 1;
  if (!window) return;
  c->sent_at = calloc(ring, sizeof *c->sent_at);
  call(c->line, buffer, put8(begin_method(buffer, c->channel, 85, 10), 0), 85, 11);
}

static void subscribe(struct connection *c, const char *queue, int number) {
  uint8_t buffer[512], *p = put_short(put16(begin_method(buffer, 1, 60, 20), 0), queue);
  char tag[32];
  sprintf(tag, "c-%d", number);
  call(c, buffer, put32(put8(put_short(p, tag), ack_every ? 0 : 2), 0), 60, 21);
}

/* Connection `number` consumes from the queues number, number + consumers, ... round and round. */
static void become_consumer(struct connection *c, int number) {
  uint8_t buffer[512], *p = put32(begin_method(buffer, 1, 60, 10), 0);
  char name[64] = DEAD;
  int count = subscriptions;
  c->consumer = 1;
  c->queue = number % queues;                /* --get: the one that it asks. */
  if (get_mode) return;
  call(c, buffer, put8(put16(p, prefetch), 0), 60, 11);
  if (!count) count = dead_letters ? 1 : (queues - number + consumers - 1) / consumers;
  for (int i = 0; i < count; i++) {
    if (!dead_letters) queue_name(name, (number + i * consumers) % queues);
    subscribe(c, name, i);
  }
}

/* ---- the run ---- */

static uint8_t *put_type_and_headers(uint8_t *p, uint64_t number) {
  char text[64];
  p = put_short(p, "application/json");
  uint8_t *table = p;
  p = put32(p, 0);
  sprintf(text, "trace-%016llx", (unsigned long long)next_random());
  p = put_long(put8(put_short(p, "trace"), 'S'), text);
  p = put64(put8(put_short(p, "number"), 'l'), number);
  p = put8(put8(put_short(p, number % 2 ? "odd" : "even"), 't'), 1);
  put32(table, p - table - 4);
  return p;
}

static uint8_t *put_properties(uint8_t *p, uint64_t number) {
  char text[64];
  unsigned flags = 0x1000;                   /* Delivery mode. */
  int expires = expiration_max && number % expiration_every == 0;
  if (vary) flags |= 0x8000 | 0x2000 | 0x0080; /* Type, headers, message id. */
  if (priorities) flags |= 0x0800;
  if (expires) flags |= 0x0100;
  p = put16(p, flags);
  if (vary) p = put_type_and_headers(p, number);
  p = put8(p, persistent ? 2 : 1);
  if (priorities) p = put8(p, number % priorities);
  if (expires) {
    sprintf(text, "%u", expiration_min + (unsigned)(next_random() % (expiration_max - expiration_min + 1)));
    p = put_short(p, text);
  }
  if (!vary) return p;
  sprintf(text, "%08x-%04x-4%03x-%016llx", (unsigned)next_random(), (unsigned)number & 65535,
          (unsigned)number & 4095, (unsigned long long)next_random());
  return put_short(p, text);
}

static uint8_t *put_message(uint8_t *p, int channel, uint64_t number) {
  char key[64] = "";
  uint8_t *start = p;
  uint32_t size = size_min;
  if (size_max > size_min) size += next_random() % (size_max - size_min + 1);
  if (kind == DEFAULT) queue_name(key, number % keys);
  if (kind == TOPIC) sprintf(key, "t.%d.x", (int)(number % keys));
  if (kind == HASH) sprintf(key, "%016llx", (unsigned long long)next_random());
  if (fixed_key) snprintf(key, sizeof key, "%s", fixed_key);
  p = put_short(put_short(put16(begin_method(p, channel, 60, 40), 0), exchange_name()), key);
  start = p = end(put8(p, mandatory), start);
  p = put64(put16(put16(begin(p, 2, channel), 60), 0), size);
  start = p = end(put_properties(p, number), start);
  return size ? end(put_bytes(begin(p, 3, channel), filler, size), start) : p;
}

static int may_publish(struct connection *c) {
  if (c->line->lost || c->consumer) return 0;
  return !window || c->next_tag - c->lowest_open < window;
}

static void flush(struct connection *c) {
  while (c->out_from < c->out_to) {
    ssize_t n = send(c->fd, c->out + c->out_from, c->out_to - c->out_from, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) { c->lost = 1; errors++; return; }
    c->out_from += n;
  }
  if (c->out_from == c->out_to) c->out_from = c->out_to = 0;
}

static void fill(struct connection *c, uint64_t allowed) {
  struct connection *line = c->line;
  while (may_publish(c) && sent < allowed && line->out_to + MESSAGE_MAX <= OUT_BYTES) {
    line->out_to = put_message(line->out + line->out_to, c->channel, sent) - line->out;
    if (window) c->sent_at[c->next_tag % ring] = now_ns();
    c->next_tag++;
    sent++;
    if (one_per_write) flush(line);
  }
}

static void confirm(struct connection *c, uint64_t tag, int multiple, int good, uint64_t now) {
  for (uint64_t t = multiple ? c->lowest_open : tag; t <= tag; t++) {
    uint64_t *at = &c->sent_at[t % ring];
    if (!*at) continue;
    note_latency(now - *at);
    *at = 0;
    *(good ? &confirmed : &nacked) += 1;
  }
  while (c->lowest_open < c->next_tag && !c->sent_at[c->lowest_open % ring]) c->lowest_open++;
}

static void acknowledge(struct connection *c) {
  uint8_t *start = c->out + c->out_to;
  if (!c->unacked || c->out_to + 64 > OUT_BYTES) return;
  uint8_t *p = put64(begin_method(start, 1, 60, 80), c->last_delivery);
  c->out_to = end(put8(p, 1), start) - c->out;
  c->unacked = 0;
}

/* --leave: each delivery alone, all but the first of each `leave`. */
static void settle_singly(struct connection *c) {
  while (c->settled_to < c->last_delivery && c->out_to + 64 <= OUT_BYTES) {
    uint64_t tag = ++c->settled_to;
    if (tag % leave == (leave > 1)) continue;
    uint8_t *start = c->out + c->out_to;
    c->out_to = end(put8(put64(begin_method(start, 1, 60, 80), tag), 0), start) - c->out;
  }
}

static void ask_for_one(struct connection *c, uint64_t now) {
  uint8_t *start = c->out + c->out_to;
  char name[64];
  queue_name(name, c->queue);
  uint8_t *p = put_short(put16(begin_method(start, 1, 60, 70), 0), name);
  c->out_to = end(put8(p, ack_every ? 0 : 1), start) - c->out;
  c->asked_at = now;
}

static void on_get_ok(struct connection *c, const uint8_t *p, uint64_t now) {
  received++;
  note_latency(now - c->asked_at);
  c->last_delivery = get64(p + 4);
  if (ack_every && ++c->unacked >= ack_every) acknowledge(c);
  ask_for_one(c, now);
}

static void on_method(struct connection *c, const uint8_t *p, uint64_t now) {
  int class_id = get16(p), method_id = get16(p + 2);
  if (class_id == 60 && (method_id == 80 || method_id == 120)) {
    confirm(c, get64(p + 4), p[12] & 1, method_id == 80, now);
  } else if (class_id == 60 && method_id == 50) {
    returned++;
  } else if (class_id == 60 && method_id == 71) {
    on_get_ok(c, p, now);
  } else if (class_id == 60 && method_id == 72) {
    empty++;
    drained = prefill > 0;
    note_latency(now - c->asked_at);
    if (!drained) ask_for_one(c, now);
  } else if (class_id == 60 && method_id == 60) {
    received++;
    c->last_delivery = get64(p + 5 + p[4]);
    if (!leave && ack_every && ++c->unacked >= ack_every) acknowledge(c);
  } else if ((class_id == 20 && method_id == 40) || (class_id == 10 && method_id == 50)) {
    fprintf(stderr, "vgen: closed by broker: %d %.*s\n", get16(p + 4), p[6], p + 7);
    c->line->lost = 1;
    errors++;
  }
}

/* Handle the frames that are there. */
static void handle_all(struct connection *c) {
  uint32_t at = 0;
  uint64_t now = now_ns();
  while (c->in_len - at >= 7) {
    uint32_t bytes = get32(c->in + at + 3) + 8;
    make_room(c, bytes);
    if (c->in_len - at < bytes) break;
    int channel = get16(c->in + at + 1);
    if (c->in[at] == 1) on_method(channel ? c + channel - 1 : c, c->in + at + 7, now);
    at += bytes;
  }
  memmove(c->in, c->in + at, c->in_len - at);
  c->in_len -= at;
}

static void take_in(struct connection *c) {
  for (;;) {
    ssize_t n = read(c->fd, c->in + c->in_len, c->in_bytes - c->in_len);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) { c->lost = 1; errors++; }
    if (n <= 0) return;
    c->in_len += n;
    handle_all(c);
  }
}

/* Fill the queues from the default exchange before the run; return once all is there. */
static void fill_queues(struct connection *c) {
  uint8_t buffer[512], *p;
  char name[64];
  for (uint64_t n = 0; n < prefill; n++) {
    c->out_to = put_message(c->out + c->out_to, 1, n) - c->out;
    if (c->out_to + MESSAGE_MAX <= OUT_BYTES && n + 1 < prefill) continue;
    send_all(c, c->out, c->out_to);
    c->out_to = 0;
  }
  for (int i = 0; i < queues; i++) {         /* Answered behind what was published. */
    queue_name(name, i);
    p = put32(put8(put_short(put16(begin_method(buffer, 1, 50, 10), 0), name), 1), 0);
    call(c, buffer, p, 50, 11);
  }
}

static double cpu_seconds(void) {            /* Of the broker's processes. */
  double total = 0;
  for (int i = 0; i < pid_count; i++) {
    char path[64], text[1024], *p;
    unsigned long u, s;
    sprintf(path, "/proc/%d/stat", pids[i]);
    FILE *file = fopen(path, "r");
    if (!file) continue;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    p = strrchr(text, ')');
    if (p && sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &u, &s) == 2)
      total += (u + s) / (double)sysconf(_SC_CLK_TCK);
  }
  return total;
}

static double rss_mb(void) {
  double total = 0;
  for (int i = 0; i < pid_count; i++) {
    char path[64];
    unsigned long pages, resident;
    sprintf(path, "/proc/%d/statm", pids[i]);
    FILE *file = fopen(path, "r");
    if (!file) continue;
    if (fscanf(file, "%lu %lu", &pages, &resident) == 2) total += resident * 4096.0 / 1048576;
    fclose(file);
  }
  return total;
}

static double own_cpu_seconds(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return r.ru_utime.tv_sec + r.ru_stime.tv_sec + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

static void serve(int poll, int busy) {
  struct epoll_event events[256];
  int n = epoll_wait(poll, events, 256, busy ? 0 : 1);
  for (int i = 0; i < n; i++) {
    struct connection *c = &all[events[i].data.u32];
    if (!c->lost) take_in(c);
    if (c->lost) epoll_ctl(poll, EPOLL_CTL_DEL, c->fd, 0);
  }
}

static int push(int poll, int total, uint64_t allowed) { /* Whether somebody could publish more. */
  int busy = 0;
  for (int i = 0; i < total; i++) {
    struct connection *c = &all[i];
    if (c->line->lost) continue;
    if (leave) settle_singly(c);
    fill(c, allowed);
    if (i + 1 < total && all[i + 1].line == c->line) continue;
    c = c->line;
    flush(c);
    int waits = c->out_from < c->out_to;
    if (waits != c->waits_for_write) {
      struct epoll_event event = {.events = EPOLLIN | (waits ? EPOLLOUT : 0), .data.u32 = c - all};
      epoll_ctl(poll, EPOLL_CTL_MOD, c->fd, &event);
      c->waits_for_write = waits;
    }
    busy |= !waits && may_publish(c) && sent < allowed;
  }
  return busy;
}

static struct counts { uint64_t done, got, nacked, returned, empty; } base;

static void report(double seconds, double broker, double own, double rss) {
  uint64_t done = (window ? confirmed : sent) - base.done, got = received - base.got;
  printf("{\"pub_per_s\":%.0f,\"sub_per_s\":%.0f,\"nack_per_s\":%.0f,\"return_per_s\":%.0f,\"empty_per_s\":%.0f,"
         "\"seconds\":%.3f,\"sent\":%llu,\"confirmed\":%llu,"
         "\"nacked\":%llu,\"returned\":%llu,\"received\":%llu,\"conf_ms\":[%.3f,%.3f,%.3f],"
         "\"broker_cpu_pct\":%.0f,\"gen_cpu_pct\":%.0f,\"broker_rss_end_mb\":%.0f,\"errors\":%d}\n",
         done / seconds, got / seconds, (nacked - base.nacked) / seconds,
         (returned - base.returned) / seconds, (empty - base.empty) / seconds, seconds, (unsigned long long)sent,
         (unsigned long long)confirmed, (unsigned long long)nacked, (unsigned long long)returned,
         (unsigned long long)received, latency_ms(0.5), latency_ms(0.99), slowest / 1e6,
         broker / seconds * 100, own / seconds * 100, rss, errors);
}

static void begin_measuring(void) {
  base = (struct counts){window ? confirmed : sent, received, nacked, returned, empty};
  memset(buckets, 0, sizeof buckets);
  bucket_total = slowest = 0;
}

static void run(int poll, int total) {
  uint64_t begun = now_ns(), measured = begun + warmup * 1e9, stop = begun + (warmup + duration) * 1e9;
  uint64_t at = 0;
  double broker = 0, own = 0;
  for (int i = 0; i < total; i++) {
    if (get_mode && all[i].consumer) ask_for_one(&all[i], begun);
    if (all[i].line == &all[i]) handle_all(&all[i]); /* Deliveries that came in set-up. */
  }
  for (int warm = 0;;) {
    uint64_t now = now_ns(), allowed = UINT64_MAX;
    if (!warm && now >= measured) {
      warm = 1;
      at = now;
      begin_measuring();
      broker = cpu_seconds();
      own = own_cpu_seconds();
    }
    if (drained && !warm) die("the queue is empty before the measurement: a larger --prefill");
    if (now >= stop || drained) break;
    if (rate > 0) allowed = rate * (now - begun) / 1e9;
    if (count_max && allowed > count_max) allowed = count_max;
    if (count_max && (window ? confirmed : sent) >= count_max && (!consumers || received >= count_max)) break;
    serve(poll, push(poll, total, allowed));
  }
  report((now_ns() - at) / 1e9, cpu_seconds() - broker, own_cpu_seconds() - own, rss_mb());
}

static void read_range(const char *text, uint32_t *low, uint32_t *high) {
  char *colon = strchr(text, ':');
  *low = atoi(text);
  *high = colon ? (uint32_t)atoi(colon + 1) : *low;
}

static void read_options(int count, char **words) {
  static const struct option known[] = {
      {"host", 1, 0, 1}, {"port", 1, 0, 2}, {"user", 1, 0, 3}, {"pass", 1, 0, 4},
      {"connections", 1, 0, 5}, {"consumers", 1, 0, 6}, {"queues", 1, 0, 7}, {"keys", 1, 0, 8},
      {"exchange", 1, 0, 9}, {"bindings", 1, 0, 10}, {"vary", 0, 0, 11}, {"size", 1, 0, 12},
      {"one-per-write", 0, 0, 13}, {"window", 1, 0, 14}, {"prefetch", 1, 0, 15}, {"ack", 1, 0, 16},
      {"transient", 0, 0, 17}, {"nonpersistent", 0, 0, 18}, {"duration", 1, 0, 19},
      {"warmup", 1, 0, 20}, {"rate", 1, 0, 21}, {"pids", 1, 0, 22}, {"keep", 0, 0, 23},
      {"qarg", 1, 0, 24}, {"priorities", 1, 0, 25}, {"expiration", 1, 0, 26},
      {"subscriptions", 1, 0, 27}, {"get", 0, 0, 28}, {"prefill", 1, 0, 29}, {"mandatory", 0, 0, 30},
      {"key", 1, 0, 31}, {"dead-letters", 0, 0, 32}, {"expiration-every", 1, 0, 33},
      {"leave", 1, 0, 34}, {"count", 1, 0, 35}, {"channels", 1, 0, 36}, {0}};
  for (int k; (k = getopt_long(count, words, "", known, 0)) != -1;) switch (k) {
    case 1: host = optarg; break;
    case 2: port = atoi(optarg); break;
    case 3: user = optarg; break;
    case 4: password = optarg; break;
    case 5: connections = atoi(optarg); break;
    case 6: consumers = atoi(optarg); break;
    case 7: queues = atoi(optarg); break;
    case 8: keys = atoi(optarg); break;
    case 9:
      kind = !strcmp(optarg, "fanout") ? FANOUT : !strcmp(optarg, "topic") ? TOPIC
           : !strcmp(optarg, "hash") ? HASH : !strcmp(optarg, "headers") ? HEADERS : DEFAULT;
      break;
    case 10: bindings = atoi(optarg); break;
    case 11: vary = 1; break;
    case 12: read_range(optarg, &size_min, &size_max); break;
    case 13: one_per_write = 1; break;
    case 14: window = atoi(optarg); break;
    case 15: prefetch = atoi(optarg); break;
    case 16: ack_every = atoi(optarg); break;
    case 17: durable = 0; break;
    case 18: persistent = 0; break;
    case 19: duration = atof(optarg); break;
    case 20: warmup = atof(optarg); break;
    case 21: rate = atof(optarg); break;
    case 22:
      for (char *t = strtok(optarg, ","); t && pid_count < 32; t = strtok(0, ","))
        pids[pid_count++] = atoi(t);
      break;
    case 23: cleanup = 0; break;
    case 24:
      if (argument_count == ARGUMENTS_MAX) die("at most %d --qarg", ARGUMENTS_MAX);
      arguments[argument_count++] = optarg;
      break;
    case 25: priorities = atoi(optarg); break;
    case 26: read_range(optarg, &expiration_min, &expiration_max); break;
    case 27: subscriptions = atoi(optarg); break;
    case 28: get_mode = 1; break;
    case 29: prefill = atoi(optarg); break;
    case 30: mandatory = 1; break;
    case 31: fixed_key = optarg; break;
    case 32: dead_letters = 1; break;
    case 33: expiration_every = atoi(optarg); break;
    case 34: leave = strtoull(optarg, 0, 10); break;
    case 35: count_max = strtoull(optarg, 0, 10); break;
    case 36: channels = atoi(optarg); break;
    default: die("unknown option; see README.md");
  }
  if (size_max > BODY_MAX || size_min > size_max) die("--size MIN[:MAX], at most %d", BODY_MAX);
  if (queues < 1 || connections < 0 || consumers < 0) die("--queues >= 1");
  if (channels < 1 || channels > 2047) die("--channels 1 to 2047");
  if (kind == HEADERS) vary = 1;             /* The bindings ask for headers of it. */
  if (expiration_min > expiration_max) die("--expiration MIN[:MAX]");
  if (expiration_every < 1) die("--expiration-every >= 1");
  if (kind == TOPIC && !bindings) bindings = queues;
  if (!keys) keys = kind == TOPIC ? bindings : queues;
  if (kind == DEFAULT && keys > queues) die("--keys at most --queues for the default exchange");
  for (ring = 2; ring < 2 * window + 2; ring *= 2) continue;
}

int main(int count, char **words) {
  struct connection admin = {0};
  struct rlimit files = {65536, 65536};
  signal(SIGPIPE, SIG_IGN);
  setrlimit(RLIMIT_NOFILE, &files);
  read_options(count, words);
  memset(filler, 'x', sizeof filler);
  open_connection(&admin);
  delete_all(&admin);
  declare_all(&admin);
  if (prefill) fill_queues(&admin);
  int publishers = connections * channels, total = publishers + consumers;
  int poll = epoll_create1(0);
  all = calloc(total, sizeof *all);
  for (int i = 0; i < total; i++) {
    int channel = i < publishers ? i % channels + 1 : 1;
    if (channel > 1) open_channel(&all[i], &all[i - channel + 1], channel);
    else open_connection(&all[i]);
    if (i < publishers) become_publisher(&all[i]);
    else become_consumer(&all[i], i - publishers);
  }
  for (int i = 0; i < total; i++) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
    if (all[i].line != &all[i]) continue;
    fcntl(all[i].fd, F_SETFL, O_NONBLOCK);
    epoll_ctl(poll, EPOLL_CTL_ADD, all[i].fd, &event);
  }
  run(poll, total);
  for (int i = 0; i < total; i++)
    if (all[i].line == &all[i]) close(all[i].fd);
  if (cleanup) delete_all(&admin);
  return errors ? 3 : 0;
}
