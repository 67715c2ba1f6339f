#!/bin/sh
# Stops the system service before its program goes. An upgrade (Debian: "upgrade", RPM: 1) keeps it.
set -e
case ${1:-remove} in
  remove | 0)
    if [ -d /run/systemd/system ]; then systemctl disable --now svc.service || true; fi
    ;;
esac
