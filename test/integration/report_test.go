package integration

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const privateKey = "c2VjcmV0LWNhbmFyeS1zZWNyZXQtY2FuYXJ5LTEyMzQ="

// A report gives the same output as the agents, includes events before a restart, works after the
// agents are gone, and contains no secrets.
func TestReport(t *testing.T) {
	l := require(t)
	o := newOperator(t, l, "node1") // its cleanup also waits for the status of the policy
	pod(t, l, "reported", "node1")
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	text := "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: default, name: reported}\nspec: {podSelector: {}, ingress: [{}]}\n"
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Apply(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := l.Delete(t.Context(), policy); err != nil {
			t.Error(err)
		}
	})
	key := "config/vpp/v2/interfaces/wg-reported"
	revision := o.put(key, `{"name": "wg-reported", "type": "WIREGUARD_TUNNEL", "enabled": true, "wireguard": {"private_key": "`+privateKey+`", "port": 51820, "src_addr": "192.168.16.1"}}`)
	o.await(key, revision, "")                                             // any state, which depends on the kernel
	mustMatch(t, ctl(t, l, "events", "node1"), `Add Pod default/reported`) // an agent that responds has written it
	if err := l.KillAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	if err := l.StartAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}

	commands := []string{
		"nodes", "pods", "pods -o json", "ipam", "interfaces", "nodeconfig", "services", "policies", "policies default/reported", "policies default/none", "denials", "status",
		"events node1", "events -o json", "txns", "txns 0 --node node1", "txns -o json",
		"values", "values wg-reported", "values --state PENDING", "values -o yaml",
		"explain reported", "explain wg-reported", "timeline reported", "timeline wg-reported",
		"diff --since txn:0 node1", "graph --node node1", "dump --view NB --node node2", "dump --node node2",
	}
	// Agents may work between two questions. The report must match answers that are the same before
	// and after it.
	ask := func() (answers []told) {
		for _, c := range commands {
			answers = append(answers, tell(t, append([]string{"--config", l.CtlConfig()}, strings.Fields(c)...)...))
		}
		return answers
	}
	file := filepath.Join(t.TempDir(), "report.tgz")
	before := ask()
	if out := ctl(t, l, "report", "--file", file); !strings.Contains(out, "2 nodes.") {
		t.Errorf("contivctl report: %s", out)
	}
	after := ask()
	compared := 0
	for i, c := range commands {
		if strings.Contains(before[i].text, privateKey) {
			t.Errorf("%s: an agent reveals a secret", c)
		}
		if before[i] != after[i] {
			t.Logf("%s: not compared, agents have other answers now:\n%s", c, cmp.Diff(before[i].text, after[i].text))
			continue
		}
		compared++
		if got := tell(t, append([]string{"--from", file}, strings.Fields(c)...)...); got != before[i] {
			t.Errorf("%s: the report answers %d, the agents %d (-agents, +report):\n%s", c, got.code, before[i].code, cmp.Diff(before[i].text, got.text))
		}
	}
	if compared < len(commands)/2 {
		t.Errorf("only %d of %d commands were compared", compared, len(commands))
	}
	mustMatch(t, tell(t, "--from", file, "events", "node1", "--last", "200").text, `run \d+ was killed or crashed after `, `Add Pod default/reported`)
	mustMatch(t, tell(t, "--from", file, "pods").text, `node1 .*reported`)

	names := packedFiles(t, file)
	for _, want := range []string{"/README", "/report.json", "/nodes/node1/history/00000001.log", "/nodes/node2/index.json"} {
		if !strings.Contains(names, want) {
			t.Errorf("no %s in\n%s", want, names)
		}
	}
}

type told struct {
	text string
	code int
}

func tell(t *testing.T, args ...string) told {
	t.Helper()
	cmd := exec.Command(filepath.Join(binaries, "contivctl"), args...)
	cmd.Env = append(os.Environ(), "COLUMNS=1000")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return told{string(out), cmd.ProcessState.ExitCode()}
}

// packedFiles returns the names of the files in a report, one per line, and fails the test if a
// file contains a secret.
func packedFiles(t *testing.T, name string) string {
	t.Helper()
	var names strings.Builder
	unpackReport(t, name, func(name string, content []byte) {
		names.WriteString(name + "\n")
		for _, secret := range []string{privateKey, "PRIVATE KEY-----"} {
			if bytes.Contains(content, []byte(secret)) {
				t.Errorf("%s of the report has a secret", name)
			}
		}
	})
	return names.String()
}

func unpackReport(t *testing.T, name string, visit func(name string, content []byte)) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var content io.Reader = archive
		if strings.HasSuffix(header.Name, ".gz") {
			if content, err = gzip.NewReader(archive); err != nil {
				t.Fatal(err)
			}
		}
		data, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		visit(header.Name, data)
	}
}
