#!/bin/sh
# Job demo: starts the 2 nodes of compose.yaml in the background.
# Identity of recipe and site: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
#
#   docker compose -p demo logs -f; docker compose -p demo down -v
set -eu
cd "$(dirname "$0")"
engine=${ORBIT_DOCKER:-docker}
USER=$(id -un) ORBIT_CALLER=$(id -u):$(id -g)
export USER ORBIT_CALLER

# A folder and files of this user alone. It stays: the engine mounts the files at each start.
umask 077
ORBIT_PRIVATE=$PWD/private
export ORBIT_PRIVATE
rm -rf "$ORBIT_PRIVATE"
mkdir "$ORBIT_PRIVATE"
od -An -vtx1 -N32 /dev/urandom | tr -d ' \n' >"$ORBIT_PRIVATE/owner"
"$engine" compose --project-name demo --file compose.yaml up --detach --remove-orphans
