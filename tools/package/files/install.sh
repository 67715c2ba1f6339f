#!/bin/sh
# Installs this folder for one user, or for all with --prefix /usr/local.
#
#   ./install.sh [--prefix <folder>]
#   ./install.sh --back [--prefix <folder>]          the version before, which is kept
#   ./install.sh --uninstall [--prefix <folder>]
#
# lib/svc/current leads to the version in use, and lib/svc/previous to the one before. One rename
# switches, so a script that is killed leaves the old version or the new one.
set -eu

prefix=${HOME:-}/.local
uninstall=no
back=no
while [ $# -gt 0 ]; do
  case $1 in
    --prefix)
      [ $# -gt 1 ] || { echo 'error: --prefix needs a folder' >&2; exit 2; }
      prefix=$2
      shift
      ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --uninstall) uninstall=yes ;;
    --back) back=yes ;;
    -h | --help)
      sed -n '2,9s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      echo "error: there is no argument \"$1\"; see: $0 --help" >&2
      exit 2
      ;;
  esac
  shift
done
case $prefix in
  /.local)
    echo 'error: HOME is not set; name a folder: --prefix <folder>' >&2
    exit 2
    ;;
  /*) ;;
  *) prefix=$(pwd -P)/$prefix ;;
esac

program=$prefix/lib/svc
versions=$program/versions
# What links into the version in use: the place of each link, and what it leads to.
links='bin/svc bin/svc
share/man/man1/svc.1 share/man/man1/svc.1
share/bash-completion/completions/svc share/bash-completion/completions/svc
share/zsh/site-functions/_svc share/zsh/site-functions/_svc
share/fish/vendor_completions.d/svc.fish share/fish/vendor_completions.d/svc.fish'

# Only links of an installation are replaced or removed.
is_ours() {
  [ -L "$1" ] && case $(readlink "$1") in "$program"/*) true ;; *) false ;; esac
}

# lead <name> <target>: the link is the old one or the new one, and never missing.
lead() {
  ln -s "$2" "$program/.$1.$$"
  mv -fT "$program/.$1.$$" "$program/$1"
}

version_of() {
  "$1/bin/svc" version | sed -n '1s/^svc //p'
}

if [ "$uninstall" = yes ]; then
  if [ ! -e "$program/install.sh" ]; then
    echo "error: svc is not installed in $prefix" >&2
    exit 1
  fi
  # Stops the daemon, removes its service, and lists the files of the user, which stay.
  said=$("$program/current/bin/svc" uninstall) || echo 'The daemon could not be asked to stop.' >&2
  echo "$said" | sed '/^Then remove the program/d'
  echo "$links" | while read -r place _; do
    if is_ours "$prefix/$place"; then rm -f "$prefix/$place"; fi
  done
  made=$(cat "$program/made" 2>/dev/null || true)
  rm -rf "$program"
  # Folders with foreign files stay, and those that were there before.
  echo "$made" | while read -r folder; do rmdir "$folder" 2>/dev/null || true; done
  echo "Removed $program and its links in $prefix."
  exit 0
fi

if [ "$back" = yes ]; then
  if [ ! -e "$program/previous/bin/svc" ]; then
    echo "error: there is no version before this one in $program" >&2
    exit 1
  fi
  old=$(readlink "$program/current")
  lead current "$(readlink "$program/previous")"
  lead previous "$old"
  echo "svc $(version_of "$program/current") is in use again, in $program."
  exit 0
fi

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
case $here in
  "$program" | "$versions"/*)
    echo "error: svc is installed from here already" >&2
    exit 1
    ;;
esac
echo "$links" | while read -r place _; do
  if [ -e "$prefix/$place" ] && ! is_ours "$prefix/$place"; then
    echo "error: $prefix/$place belongs to something else; move it away first" >&2
    exit 1
  fi
done
# The folders to make, each before the one that it is in.
missing() {
  folder=$1
  until [ -d "${folder:-/}" ]; do
    echo "$folder"
    folder=${folder%/*}
  done
}
made=$({
  missing "$prefix/lib"
  echo "$links" | while read -r place _; do missing "$prefix/${place%/*}"; done
} | sort -ru)
# Other users can run it below /usr/local, whatever umask and modes the folder came with.
umask 022
# Before 1.0.0 the program was in lib/svc itself. It becomes the version before, with this script:
# its own one knows no versions.
if [ -e "$program/bin/svc" ]; then
  mv "$program" "$program.old.$$"
  mkdir -p "$versions"
  mv "$program.old.$$" "$versions/first"
  cp "$here/install.sh" "$versions/first/install.sh"
  lead current versions/first
fi
mkdir -p "$versions"
[ -e "$program/made" ] || echo "$made" >"$program/made"
# What a script that was killed has left.
rm -rf "$versions"/.new.*
# The copy is whole before it gets its name.
new=$versions/.new.$$
trap 'rm -rf "$new"' EXIT
cp -R "$here" "$new"
chmod -R go=u-w "$new"
"$new/bin/svc" version
version=$(version_of "$new")
name=${version:-unknown}
number=1
while [ -e "$versions/$name" ]; do
  number=$((number + 1))
  name=$version-$number
done
mv "$new" "$versions/$name"
trap - EXIT
if [ -e "$program/current" ]; then lead previous "$(readlink "$program/current")"; fi
lead current "versions/$name"
[ -L "$program/install.sh" ] || ln -s current/install.sh "$program/install.sh"
echo "$links" | while read -r place target; do
  mkdir -p "$(dirname "$prefix/$place")"
  ln -sfn "$program/current/$target" "$prefix/$place"
done
# Only the version in use and the one before are kept.
for old in "$versions"/*; do
  case versions/${old##*/} in
    "$(readlink "$program/current")") ;;
    "$(readlink "$program/previous" || true)") ;;
    *) rm -rf "$old" ;;
  esac
done
echo "Installed in $program."
case :${PATH:-}: in
  *":$prefix/bin:"*) echo 'Ask it: svc run "What is svc?"' ;;
  *) echo "$prefix/bin is not in your PATH. Add it, or run: $prefix/bin/svc run \"What is svc?\"" ;;
esac
