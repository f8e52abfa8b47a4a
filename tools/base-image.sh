#!/bin/sh
# Writes the digest that the registry has now for the base image's tag into the Containerfile, or with --check says whether it is that one.
# Asks with skopeo, crane or docker, whichever is there. TAG= takes another tag of the same repository.
set -eu
cd "$(dirname "$0")/.."
reference=$(sed -n 's/^FROM \(.*@sha256:[0-9a-f]\{64\}\) AS base$/\1/p' Containerfile)
image=${reference%@*} old=${reference#*@}
image=${image%:*}:${TAG:-${image##*:}}
if command -v skopeo >/dev/null; then new=$(skopeo inspect --format '{{.Digest}}' "docker://$image")
elif command -v crane >/dev/null; then new=$(crane digest "$image")
elif command -v docker >/dev/null; then new=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$image")
else echo "base-image: install skopeo, crane or docker to ask for the digest of $image" >&2; exit 2
fi
echo "$new" | grep -qx 'sha256:[0-9a-f]\{64\}' || { echo "base-image: no digest of $image: $new" >&2; exit 2; }
if [ "$new" = "$old" ] && [ "$image" = "${reference%@*}" ]; then echo "base-image: $image is up to date"; exit 0; fi
if [ "${1:-}" = --check ]; then echo "base-image: $image is $new now, the Containerfile has $old: make base-image" >&2; exit 1; fi
sed -i "s|^FROM $reference AS base|FROM $image@$new AS base|" Containerfile
echo "base-image: $image is $new now (was $old)"
