#!/bin/sh
# Makes sure that a Docker engine answers: uses the one that does, else installs docker.io where that is possible and
# starts a dockerd of its own. Says which. ENGINE_ROOT is where a dockerd of its own keeps its images.
set -eu

root=${ENGINE_ROOT:-/var/lib/sparring-docker}
log=${ENGINE_LOG:-/tmp/sparring-dockerd.log}
socket=/var/run/docker.sock

version() {
    command -v docker >/dev/null && DOCKER_HOST="unix://$socket" docker version --format '{{.Server.Version}}' 2>/dev/null
}

if found=$(version); then
    echo "engine: Docker $found answers already at $socket"
    exit 0
fi

if [ "$(id -u)" -ne 0 ]; then
    echo "engine: none answers at $socket, and only root can start one" >&2
    exit 1
fi

if ! command -v dockerd >/dev/null || ! command -v docker >/dev/null; then
    if ! command -v apt-get >/dev/null; then
        echo "engine: there is no dockerd and no apt-get to install docker.io with" >&2
        exit 1
    fi
    echo "engine: installing docker.io"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker.io >/dev/null
fi

echo "engine: starting dockerd --data-root $root (log: $log)"
mkdir -p "$root"
# Less garbage collection, for more memory: with Go's default a tenth of the engine's processor time goes to it.
GOGC=${GOGC:-400} setsid dockerd --data-root "$root" >"$log" 2>&1 </dev/null &
daemon=$!

seconds=0
until found=$(version); do
    if ! kill -0 "$daemon" 2>/dev/null; then
        echo "engine: dockerd ended; its last words:" >&2
        tail -n 20 "$log" >&2
        exit 1
    fi
    seconds=$((seconds + 1))
    if [ "$seconds" -gt 60 ]; then
        echo "engine: dockerd does not answer after 60 s; its last words:" >&2
        tail -n 20 "$log" >&2
        exit 1
    fi
    sleep 1
done
echo "engine: Docker $found started, process $daemon"
