#!/usr/bin/env bash
# Regenerates the Go code of all .proto files. Called by `make generate`.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$PWD/bin/tools
mkdir -p "$bin"
for tool in google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc; do
	go build -modfile=hack/tools/go.mod -o "$bin/" "$tool"
done

find api -name '*.pb.go' -delete
PATH=$bin:$PATH protoc -I api \
	--go_out=. --go_opt=module=github.com/contiv/contiv \
	--go-grpc_out=. --go-grpc_opt=module=github.com/contiv/contiv \
	$(find api -name '*.proto' | sort)
