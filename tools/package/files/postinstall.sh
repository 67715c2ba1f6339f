#!/bin/sh
# Makes the user of the system service. Nothing is started: see systemctl enable --now svc.
set -e
if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers svc.conf
elif ! getent passwd svc >/dev/null; then
  useradd --system --home-dir /var/lib/svc --shell /usr/sbin/nologin svc
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
