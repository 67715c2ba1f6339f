#!/bin/sh
# Signs the checksums of a folder of packages: tools/package/sign.sh <folder> <key>
#
# The step of whoever publishes. The key is one of gpg, by its id or its address. A user checks with:
#   gpg --verify SHA256SUMS.asc SHA256SUMS && sha256sum --check --ignore-missing SHA256SUMS
set -eu
[ $# -eq 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
cd "$1"
# A file that has changed is not signed.
sha256sum --check --quiet SHA256SUMS
rm -f SHA256SUMS.asc
gpg --batch --local-user "$2" --armor --output SHA256SUMS.asc --detach-sign SHA256SUMS
gpg --batch --verify SHA256SUMS.asc SHA256SUMS
