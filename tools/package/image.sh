#!/bin/sh
# Makes a container image of an archive, from scratch: tools/package/image.sh <archive> <out.tar>
#
# It needs buildah, and a Debian system of the same processor, whose packages have the C library. No
# registry of images is asked. To load it: docker load --input <out.tar>
set -eu
[ $# -eq 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
archive=$(realpath "$1")
out=$(realpath "$2")
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
name=$(basename "$archive" .tar.gz)
version=${name#svc-}
version=${version%-linux-*}
# Only this format has a health check.
export BUILDAH_ISOLATION=chroot BUILDAH_FORMAT=docker

work=$(mktemp -d)
container=
clean() {
  [ -z "$container" ] || buildah rm "$container" >/dev/null
  rm -rf "$work"
}
trap clean EXIT

# What Node.js and the engine are linked with, and an init that reaps: there is no shell.
root=$work/root
mkdir -p "$root" "$work/debs"
(cd "$work/debs" && apt-get download -q libc6 libgcc-s1 libstdc++6 libgomp1 tini >/dev/null)
for package in "$work"/debs/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" --exclude='./usr/share/doc/*/changelog*' \
    --exclude='*/gconv/*' --exclude='./usr/share/lintian' --exclude='./usr/share/gcc'
done
mkdir -p "$root/usr/lib/svc" "$root/etc" "$root/var/lib/svc" "$root/tmp" "$root/usr/bin"
tar -xzf "$archive" -C "$root/usr/lib/svc" --strip-components=1 --no-same-owner
rm -f "$root/usr/lib/svc/install.sh" "$root/usr/lib/svc/bin/svc"
# There is no shell for the script of the archive: the system calls Node.js for the program.
program=lib/svc/lib/svc/dist/src/main.js
sed -i '1s|^#!.*|#!/usr/lib/svc/lib/node|' "$root/usr/$program"
chmod 755 "$root/usr/$program"
ln -s "../$program" "$root/usr/bin/svc"
echo image >"$root/usr/lib/svc/lib/svc/installed"
printf '%s\n' 'root:x:0:0::/:/none' 'svc:x:1000:1000::/var/lib/svc:/none' >"$root/etc/passwd"
printf '%s\n' 'root:x:0:' 'svc:x:1000:' >"$root/etc/group"
chmod 700 "$root/var/lib/svc"
chmod 1777 "$root/tmp"
# The owners stand in an archive, so that the builder need not be root.
form="--sort=name --mtime=@$epoch --numeric-owner --format=gnu -C $root"
# shellcheck disable=SC2086 # several words
tar $form --owner=0 --group=0 --exclude=./var/lib/svc -cf "$work/root.tar" .
# shellcheck disable=SC2086
tar $form --owner=1000 --group=1000 -rf "$work/root.tar" ./var/lib/svc

container=$(buildah from scratch)
buildah add --quiet "$container" "$work/root.tar" / >/dev/null
buildah config --user svc --workingdir /var/lib/svc --port 4780 --volume /var/lib/svc \
  --env PATH=/usr/bin --env SVC_HOME=/var/lib/svc --env SVC_HTTP=0.0.0.0:4780 \
  --env MALLOC_ARENA_MAX=1 --env MALLOC_TRIM_THRESHOLD_=131072 --env MALLOC_MMAP_THRESHOLD_=32768 \
  --label org.opencontainers.image.version="$version" \
  --label org.opencontainers.image.licenses=MIT \
  --entrypoint '["tini","--","svc"]' --cmd serve \
  --healthcheck 'CMD svc health' \
  --healthcheck-interval 10s --healthcheck-timeout 5s --healthcheck-start-period 60s "$container"
rm -f "$out"
buildah commit --quiet --format docker --timestamp "$epoch" "$container" \
  "docker-archive:$out:svc:$version" >/dev/null
echo "$out"
