#!/bin/sh
# The compose kit: deploy/compose.sh up|down|test|wait N [more words for compose].
#
#   up N     get or make the images, make the secret, start N nodes, wait until all are healthy; a
#            node that ends meanwhile is an error at once, and its last words are shown
#   wait N   wait for that alone
#   down N   stop and remove everything, volumes included
#   test N   up, a chaos run (SCENARIO, default all: each fault once, for EACH seconds, default 3),
#            down; the exit status is that of the run, or 0 with a message where no engine can run
#
# With MONITORING=1 there are a Prometheus and a Grafana, too.
#
# COMPOSE names the program (default: `docker compose`, or else docker-compose), PYTHON the one that
# runs the chaos run (default .venv/bin/python). For `test` without an engine that answers, one of
# its own is started if that is possible (deploy/engine.sh); WARREN_ENGINE=none says not to. Exit
# status 69: there is no engine.
set -eu
cd "$(dirname "$0")/.."
WHAT=${1:?up, down, test or wait}
N=${2:-3}
WAIT_SECONDS=${WAIT_SECONDS:-120}
LAST_LINES=20
case $N in 3 | 5 | 7) ;; *) echo "compose: $N nodes: allowed: 3, 5, 7" >&2; exit 64 ;; esac

# There is nothing to run on: an error, but for a test.
without() {
  if [ "$WHAT" = test ]; then
    echo "compose-test: skipped: $1"
    exit 0
  fi
  echo "compose: $1" >&2
  exit 69
}

if [ -z "${COMPOSE:-}" ]; then
  if docker compose version >/dev/null 2>&1; then COMPOSE="docker compose"
  elif command -v docker-compose >/dev/null; then COMPOSE=docker-compose
  else without "neither 'docker compose' nor docker-compose is there"; fi
fi
OWN_ENGINE=
if ! docker info >/dev/null 2>&1; then
  [ "$WHAT" = test ] && [ "${WARREN_ENGINE:-}" != none ] || without "no Docker engine answers"
  OWN_ENGINE=$(mktemp -d /var/tmp/warren-engine-XXXXXX)
  DOCKER_HOST=$(deploy/engine.sh start "$OWN_ENGINE") \
    || { rm -rf "$OWN_ENGINE"; without "no Docker engine answers, and none can be started"; }
  export DOCKER_HOST
fi

seeds=n1:25671
i=2
while [ "$i" -le "$N" ]; do seeds=$seeds,n$i:2567$i; i=$((i + 1)); done
export WARREN_SEEDS=$seeds
export WARREN_NODES=$N
export WARREN_IMAGE=${WARREN_IMAGE:-warren:local}
export WARREN_SECRET=${WARREN_SECRET:-./deploy/secret}
# The secret must be readable by the node and by nobody else: it belongs to the user it runs as.
if [ "$(id -u)" -eq 0 ]; then WARREN_UID=10001; else WARREN_UID=$(id -u); fi
export WARREN_UID

compose() {
  $COMPOSE --profile "$N" ${MONITORING:+--profile monitoring} "$@"
}

make_secret() {
  [ -s "$WARREN_SECRET" ] && return
  (umask 077; od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > "$WARREN_SECRET")
  [ "$(id -u)" -ne 0 ] || chown "$WARREN_UID" "$WARREN_SECRET"
}

# Containers of the nodes, one in a line.
containers() {
  i=1
  set --
  while [ "$i" -le "$N" ]; do set -- "$@" "node$i"; i=$((i + 1)); done
  compose ps -a -q "$@"
}

STATE='{{.Id}} {{.Name}} {{.State.Status}} {{.State.ExitCode}} {{.State.Health.Status}}'

# Status 0: all are healthy; 1: not yet; 2: one has ended, and was shown.
healthy() {
  # shellcheck disable=SC2086 # they are words
  docker inspect -f "$STATE" $1 | {
    count=0
    while read -r id name status code health; do
      case $status in
        exited | dead)
          echo "compose: ${name#/} has ended with status $code; the last it said:" >&2
          docker logs --tail "$LAST_LINES" "$id" >&2
          exit 2 ;;
      esac
      if [ "$health" = healthy ]; then count=$((count + 1)); fi
    done
    [ "$count" -eq "$N" ]
  }
}

await() {
  began=$(date +%s)
  found=$(containers)
  [ -n "$found" ] || { echo "compose: there are no containers of nodes" >&2; return 70; }
  while :; do
    verdict=0
    healthy "$found" || verdict=$?
    case $verdict in
      0) return ;;
      2) return 70 ;;
    esac
    if [ "$(($(date +%s) - began))" -ge "$WAIT_SECONDS" ]; then
      echo "compose: not healthy in time" >&2
      compose ps >&2
      return 70
    fi
    sleep 1
  done
}

up() {
  TOXIPROXY_IMAGE=$(deploy/images.sh "$WARREN_IMAGE") || {
    [ "$?" -eq 69 ] || exit 70
    without "the images can neither be pulled nor made here"
  }
  export TOXIPROXY_IMAGE
  make_secret
  compose up -d "$@"
  await
  echo "$N nodes are healthy"
}

# Whatever there is of the project: the largest profile has all nodes.
down() { $COMPOSE --profile 7 --profile monitoring down --volumes --remove-orphans "$@"; }

clean_up() {
  status=$?
  down >/dev/null 2>&1 || true
  if [ -n "$OWN_ENGINE" ]; then deploy/engine.sh stop "$OWN_ENGINE"; fi
  exit "$status"
}

case $WHAT in
  up) shift 2 || shift; up "$@" ;;
  wait) await ;;
  down) shift 2 || shift; down "$@" ;;
  test)
    trap clean_up EXIT
    trap 'exit 130' INT TERM
    up
    COMPOSE="$COMPOSE" "${PYTHON:-.venv/bin/python}" -m deploy.chaos.run "${SCENARIO:-all}" \
      --nodes "$N" --each "${EACH:-3}" --rate "${RATE:-300}"
    ;;
  *) echo "compose: $WHAT: allowed: up, down, test, wait" >&2; exit 64 ;;
esac
