#!/usr/bin/env bash
# Installs Debian's PostgreSQL, in which tests keep manifest stores; needs root. Tests start a server
# of their own, so the one that the package would set up is left out.
set -euo pipefail
if command -v postgres >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/postgres" >/dev/null; then
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.conf
apt-get -qq install --yes --no-install-recommends postgresql
