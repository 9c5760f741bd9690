#!/usr/bin/env bash
# Installs Debian's Chromium, in which tests open the report of a run; needs root. The font is the
# one of docs/images/report.png.
set -euo pipefail
if command -v chromium >/dev/null || command -v google-chrome >/dev/null; then
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install --yes --no-install-recommends chromium fonts-dejavu-core fonts-inter
