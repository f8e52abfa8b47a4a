#!/bin/sh
# Gets Chromium, in which tests look at pages. With root and apt it installs it, otherwise it says in one line what will be skipped and how to
# get it. Installed once, it does nothing.
set -eu

present() { command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; }

present && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "setup: installing Chromium for the tests of pages"
  log=$(mktemp)
  if ! { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium; } >"$log" 2>&1; then
    tail -n 3 "$log" >&2
  fi
  rm -f "$log"
fi
present || echo "setup: tests of pages in a browser will be skipped; to run them: apt-get install chromium, then make test" >&2
