#!/bin/sh
# Installs this folder for one user, or for all with --prefix /usr/local.
#
#   ./install.sh [--prefix <folder>]
#   ./install.sh --uninstall [--prefix <folder>]
set -eu

prefix=${HOME:-}/.local
uninstall=no
while [ $# -gt 0 ]; do
  case $1 in
    --prefix)
      [ $# -gt 1 ] || { echo 'error: --prefix needs a folder' >&2; exit 2; }
      prefix=$2
      shift
      ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --uninstall) uninstall=yes ;;
    -h | --help)
      sed -n '2,5s/^# \{0,1\}//p' "$0"
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
# What links into the program: the place of each link, and what it leads to.
links='bin/svc bin/svc
share/man/man1/svc.1 share/man/man1/svc.1
share/bash-completion/completions/svc share/bash-completion/completions/svc
share/zsh/site-functions/_svc share/zsh/site-functions/_svc
share/fish/vendor_completions.d/svc.fish share/fish/vendor_completions.d/svc.fish'

# Only links of an installation are replaced or removed.
is_ours() {
  [ -L "$1" ] && case $(readlink "$1") in "$program"/*) true ;; *) false ;; esac
}

if [ "$uninstall" = yes ]; then
  if [ ! -e "$program/install.sh" ]; then
    echo "error: svc is not installed in $prefix" >&2
    exit 1
  fi
  # Stops the daemon, removes its service, and lists the files of the user, which stay.
  said=$("$program/bin/svc" uninstall) || echo 'The daemon could not be asked to stop.' >&2
  echo "$said" | sed '/^Then remove the program/d'
  echo "$links" | while read -r place _; do
    if is_ours "$prefix/$place"; then rm -f "$prefix/$place"; fi
    # Folders that are empty now. Others stay.
    (cd "$prefix" && rmdir -p "${place%/*}" 2>/dev/null) || true
  done
  rm -rf "$program"
  rmdir "$prefix/lib" 2>/dev/null || true
  echo "Removed $program and its links in $prefix."
  exit 0
fi

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
if [ "$here" = "$program" ]; then
  echo "error: svc is installed from here already" >&2
  exit 1
fi
echo "$links" | while read -r place _; do
  if [ -e "$prefix/$place" ] && ! is_ours "$prefix/$place"; then
    echo "error: $prefix/$place belongs to something else; move it away first" >&2
    exit 1
  fi
done
mkdir -p "$prefix/lib"
# The copy is whole before it takes the place of the old one.
new=$program.new.$$
old=$program.old.$$
trap 'rm -rf "$new"' EXIT
cp -R "$here" "$new"
"$new/bin/svc" version
if [ -e "$program" ]; then mv "$program" "$old"; fi
mv "$new" "$program"
trap - EXIT
rm -rf "$old"
echo "$links" | while read -r place target; do
  mkdir -p "$(dirname "$prefix/$place")"
  ln -sf "$program/$target" "$prefix/$place"
done
echo "Installed in $program."
case :${PATH:-}: in
  *":$prefix/bin:"*) echo 'Ask it: svc run "What is svc?"' ;;
  *) echo "$prefix/bin is not in your PATH. Add it, or run: $prefix/bin/svc run \"What is svc?\"" ;;
esac
