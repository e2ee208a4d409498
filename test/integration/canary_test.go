package integration

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Secrets of the configuration and private keys appear in no log, history, report, response, status
// or command line. Files with secrets are readable only by root.
func TestSecretsStayOutOfLogsAndReports(t *testing.T) {
	require(t)
	opts := options("ca")
	opts.AgentFlags = []string{"--log-level", "DEBUG"}
	l := labtest.Up(t, opts)
	pod(t, l, "canary-pod", "node1")

	const canary = "KanarienvogelKanarienvogelKanari" // the length of a key
	key := base64.StdEncoding.EncodeToString([]byte(canary))
	secrets := map[string]string{canary: "value", strings.TrimRight(key, "="): "value in base64"}
	keep := map[string]bool{} // files with secrets
	pem := regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----\n(.*?)\n-----END`)
	err := filepath.WalkDir(l.Dir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(path, ".log") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, match := range pem.FindAllSubmatch(data, -1) {
			keep[path] = true
			lines := strings.Split(string(match[1]), "\n")
			secrets[lines[len(lines)-1]] = "key in " + path // the first lines of all keys are similar
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(keep) < 4 {
		t.Fatalf("keys of etcd, KSR and two nodes were expected: %v", keep)
	}
	look := func(where, text string) {
		t.Helper()
		for secret, what := range secrets {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s shows a secret (%s): …%s…", where, what, text[max(0, i-200):min(len(text), i+100)])
			}
		}
	}

	o := newOperator(t, l, "node1")
	const wireguard, memif = "config/vpp/v2/interfaces/canary-wg", "config/vpp/v2/interfaces/canary-memif"
	for _, port := range []int{51820, 51821} {
		o.put(
			"config/vpp/v2/interfaces/canary-bad", fmt.Sprintf(`{"name": "canary-bad", "type": "WIREGUARD_TUNNEL", "wireguard": {"private_key": "%s%%", "port": %d}}`, canary, port),
			"config/vpp/v2/interfaces/canary-worse", fmt.Sprintf(`{"name": "canary-worse", "type": "WIREGUARD_TUNNEL", "wireguard": {"private_key": "%s", "port": "%d}`, canary, port),
			"config/vpp/ipsec/v2/sa/7", fmt.Sprintf(`{"index": 7, "spi": %d, "crypto_alg": "AES_CBC_256", "crypto_key": "%s", "integ_alg": "SHA1_96", "integ_key": "%s"}`, port, canary, canary),
			memif, fmt.Sprintf(`{"name": "canary-memif", "type": "MEMIF", "enabled": true, "mtu": %d, "memif": {"secret": "%s", "socket_filename": "/run/m.sock"}}`, port-50000, canary))
		o.await(wireguard, o.put(wireguard, fmt.Sprintf(`{"name": "canary-wg", "type": "WIREGUARD_TUNNEL", "enabled": true, "wireguard": {"private_key": "%s", "port": %d, "src_addr": "192.168.16.1"}}`, key, port)), "")
	}
	await.That(t, "the agent knows the value", func() error {
		if out := tell(t, "--config", l.CtlConfig(), "values", "--node", "node1"); !strings.Contains(out.text, "canary-memif") {
			return fmt.Errorf("%s", out.text)
		}
		return nil
	})

	for _, command := range []string{
		"status", "values -o yaml", "values -o json", "explain canary-wg", "timeline canary-memif", "txns -o json", "events -o json", "diff --since txn:0 node1",
		"dump --view NB --node node1", "dump --node node1", "graph --node node1", "config get --node node1", "interfaces",
	} {
		look("contivctl "+command, tell(t, append([]string{"--config", l.CtlConfig()}, strings.Fields(command)...)...).text)
	}
	report := filepath.Join(t.TempDir(), "report.tgz")
	ctl(t, l, "report", "--file", report)
	files := 0
	unpackReport(t, report, func(name string, content []byte) {
		files++
		look("the report's "+name, string(content))
	})
	if files < 10 {
		t.Errorf("the report has %d files", files)
	}
	answer, err := o.etcd.Get(t.Context(), "/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range answer.Kvs {
		if !strings.HasPrefix(string(kv.Key), models.NodePrefix("node1")+"config/") {
			look("etcd's "+string(kv.Key), string(kv.Value))
		}
	}
	lookAtProcesses(t, l, look)
	for _, node := range []string{"node1", "node2"} {
		if err := l.StopAgent(context.WithoutCancel(t.Context()), node); err != nil {
			t.Fatal(err)
		}
		if err := l.StartAgent(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	lookAtFiles(t, l, keep, look)
}

func lookAtProcesses(t *testing.T, l *lab.Lab, look func(where, text string)) {
	t.Helper()
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	for role, p := range st.Processes {
		for _, file := range []string{"cmdline", "environ"} {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.PID, file))
			if err != nil {
				t.Error(err)
			}
			look(role+"'s "+file, string(data))
		}
	}
}

// lookAtFiles visits the files of a lab, such as logs and histories. For files in keep, which
// contain secrets, it checks only the mode.
func lookAtFiles(t *testing.T, l *lab.Lab, keep map[string]bool, look func(where, text string)) {
	t.Helper()
	looked := []string{}
	err := filepath.WalkDir(l.Dir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if keep[path] || filepath.Base(path) == "bolt.db" || strings.HasPrefix(path, l.Path("etcd")+"/") {
			if info, err := d.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has secrets and the mode %v, %v", path, info.Mode(), err)
			}
			return nil
		}
		data, err := os.ReadFile(path)
		look(path, string(data))
		looked = append(looked, strings.TrimPrefix(path, l.Dir()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/logs/agent-node1.log", "/logs/ksr.log", "/logs/etcd.log"} {
		if !slices.Contains(looked, want) {
			t.Errorf("%s is not among the files: %v", want, looked)
		}
	}
	if !slices.ContainsFunc(looked, func(file string) bool { return strings.Contains(file, "/history/") }) {
		t.Errorf("no history is among the files: %v", looked)
	}
}
