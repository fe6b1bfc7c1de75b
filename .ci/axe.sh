#!/bin/sh
# Downloads axe-core, with which the tests look for what keeps people from using a page, into build/axe/axe.min.js.
# It is not part of this repository: MPL-2.0, and not ours. SPARRING_AXE names a copy that is somewhere else.
set -eu
cd "$(dirname "$0")/.."

version=4.14.1
archive_digest=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745
script_digest=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
folder=build/axe

is_right() {
    [ -f "$2" ] && echo "$1  $2" | sha256sum --check --status
}

if is_right "$script_digest" "$folder/axe.min.js"; then
    echo "axe: $version is there already"
    exit 0
fi
mkdir -p "$folder"
trap 'rm -rf "$folder/download"' EXIT
mkdir -p "$folder/download"
npm pack --silent --pack-destination "$folder/download" "axe-core@$version" >/dev/null
if ! is_right "$archive_digest" "$folder/download/axe-core-$version.tgz"; then
    echo "axe: what the registry sent as axe-core $version is another file than before: nothing is used of it" >&2
    exit 1
fi
tar -xzf "$folder/download/axe-core-$version.tgz" -C "$folder/download" package/axe.min.js
mv "$folder/download/package/axe.min.js" "$folder/axe.min.js"
echo "axe: $version is in $folder"
