#!/usr/bin/env bash
# Looks for known vulnerabilities that our code reaches: vulncheck.sh DATABASE [if-reachable]
#
# DATABASE is https://vuln.go.dev, or file:///DIR for a copy of https://vuln.go.dev/vulndb.zip, unpacked. If the
# database cannot be reached, the script fails; with if-reachable it says that it skipped the search, and succeeds.
set -euo pipefail
database=${1%/}
cd "$(dirname "$0")/.."

case $database in
file://*) reason=$([[ -r ${database#file://}/index/db.json ]] || echo "there is no file ${database#file://}/index/db.json") ;;
*)
	hack/packages.sh curl:curl
	reason=$(curl --fail --silent --show-error --location --max-time 20 --output /dev/null "$database/index/db.json" 2>&1) || true
	;;
esac
if [[ -n $reason ]]; then
	echo "SKIPPED the search for known vulnerabilities: cannot reach $database: $reason" >&2
	echo "give a copy: make vulncheck VULN_DB=file:///DIR, where DIR is https://vuln.go.dev/vulndb.zip unpacked" >&2
	[[ ${2:-} == if-reachable ]] && exit 0
	exit 1
fi
go tool -modfile=hack/tools/go.mod govulncheck -db "$database" ./...
