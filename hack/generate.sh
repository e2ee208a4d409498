#!/usr/bin/env bash
# Regenerates the Go code of all .proto files. Called by `make generate`. Files that
# stay the same are not touched, so that builds meanwhile, and their caches, work.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$PWD/bin/tools
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
mkdir -p "$bin"
for tool in google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc; do
	go build -modfile=hack/tools/go.mod -o "$bin/" "$tool"
done

go run ./hack/wellknown >"$out/wellknown.pb"
mkdir "$out/go"
PATH=$bin:$PATH protoc -I api --descriptor_set_in="$out/wellknown.pb" \
	--go_out="$out/go" --go_opt=module=github.com/contiv/contiv \
	--go-grpc_out="$out/go" --go-grpc_opt=module=github.com/contiv/contiv \
	$(find api -name '*.proto' -printf '%P\n' | sort)

find "$out/go" -name '*.pb.go' -printf '%P\n' | while read -r file; do
	cmp -s "$out/go/$file" "$file" || cp "$out/go/$file" "$file"
done
find api -name '*.pb.go' | while read -r file; do
	[[ -e $out/go/$file ]] || rm "$file"
done
