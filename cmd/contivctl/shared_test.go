package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/ctl"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// arguments holds arguments for each command that reach the code of the shared flags. VALUES is a
// file with values, DIR an empty directory.
var arguments = map[string]string{
	"nodes": "", "nodeconfig": "", "pods": "", "ipam": "", "interfaces": "", "drops": "", "status": "", "why": "a b", "services": "", "policies": "",
	"denials": "", "events": "", "txns": "", "values": "", "dump": "x", "models": "", "explain": "x", "timeline": "x", "diff": "--since txn:1", "graph": "",
	"plan": "-f VALUES", "resync": "", "vppcli": "node1 show version", "report": "--file DIR/report.tgz", "check-config": "VALUES", "version": "",
	"config get": "", "config apply": "-f VALUES", "config delete": "x", "config diff": "-f VALUES", "config watch": "", "config wait": "-f VALUES",
	"config edit": "", "config schema": "",
	"credentials": "ops --node node1 --dir DIR", "man": "DIR", "relay": "DIR/sock",
	"install": "", "upgrade": "", "uninstall": "--yes", "preflight": "",
	"completion bash": "", "completion zsh": "", "completion fish": "", "completion powershell": "",
}

// shared lists the shared flags with values whose effect is visible: the output contains "shows",
// or one of its alternatives between bars. If it is empty, the output must be JSON.
var shared = []struct{ flags, shows string }{
	{"--kubeconfig KUBECONFIG --context other", "127.0.0.1:3"},
	{"--kubeconfig KUBECONFIG --context nope", `context "nope" does not exist`},
	{"--kubeconfig KUBECONFIG", "127.0.0.1:1"},
	{"--context mine", "127.0.0.1:4"},
	{"--agent node1=http://127.0.0.1:3", "127.0.0.1|no answer from node1"},
	{"--config AGENTS", "127.0.0.1|no answer from node1"},
	{"--etcd-endpoints http://127.0.0.1:3", "127.0.0.1:3"},
	{"--etcd-config ETCD", "127.0.0.1:3"},
	{"--agent node1=https://127.0.0.1:3 --tls-ca-file /nope", "/nope"},
	{"--agent node1=https://127.0.0.1:3 --tls-cert-file /nope --tls-key-file /nope", "/nope"},
	{"--agent node1=http://127.0.0.1:3 --node nope", `node "nope" is not known|--node nope contradicts the argument`},
	{"--from /nope", "--from: "},
	{"--timeout 0s", "--timeout 0s: use a duration above 0"},
	{"--agent node1=unix://SOCKET -o nope", `is not supported|use table or json`},
	{"--agent node1=unix://SOCKET -o json", ""},
	{"--agent node1=unix://SOCKET --full -o json", ""},
}

// Each command honours each shared flag, before and after its name, or refuses it with exit code 3.
// Refused flags are not in its help.
func TestSharedFlagsAreHonouredOrRefused(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const cluster = "apiVersion: v1\nkind: Config\ncurrent-context: this\n" +
		"clusters: [{name: one, cluster: {server: 'https://127.0.0.1:1'}}, {name: three, cluster: {server: 'https://127.0.0.1:3'}}]\n" +
		"contexts: [{name: this, context: {cluster: one}}, {name: other, context: {cluster: three}}]\n"
	socket := filepath.Join(home, "agent.sock")
	names := strings.NewReplacer(
		"KUBECONFIG", write("kubeconfig", cluster),
		"AGENTS", write("agents.yaml", "agents: {node1: 'http://127.0.0.1:3'}\n"),
		"ETCD", write("etcd.conf", "endpoints: ['http://127.0.0.1:3']\ninsecure-transport: true\n"),
		"VALUES", write("values.yaml", "model: vpp.interfaces\nvalue: {name: loop1, type: SOFTWARE_LOOPBACK}\n"),
		"SOCKET", socket,
	)
	daily := write("daily", strings.NewReplacer("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4", "other", "mine").Replace(cluster))
	for name, value := range map[string]string{"KUBECONFIG": daily, "CONTIVCTL_CONFIG": "", "ETCD_CONFIG": "", "EDITOR": "true", "VISUAL": ""} {
		t.Setenv(name, value)
	}
	l, err := listener.Unix(socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: fixtures["node1"]}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})

	run := func(args []string) (out, said string, err error) {
		t.Helper()
		dir := t.TempDir()
		for i, arg := range args {
			args[i] = strings.ReplaceAll(names.Replace(arg), "DIR", dir)
		}
		var o, e bytes.Buffer
		command := newCommand("contivctl", &o, &e)
		command.SetIn(strings.NewReader(""))
		command.SetArgs(args)
		if err = ctl.Execute(t.Context(), command); err != nil {
			e.WriteString(err.Error())
		}
		return o.String(), o.String() + e.String(), err
	}
	root := newCommand("contivctl", &bytes.Buffer{}, &bytes.Buffer{})
	root.InitDefaultCompletionCmd()
	tested := map[string]bool{}
	for _, s := range shared {
		for _, word := range strings.Fields(strings.ReplaceAll(s.flags, "-o ", "--output ")) {
			if name, is := strings.CutPrefix(word, "--"); is {
				tested[name] = true
			}
		}
	}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !tested[f.Name] {
			t.Errorf("--%s is not tested here", f.Name)
		}
	})
	leaves(root, func(cmd *cobra.Command) {
		_, path, _ := strings.Cut(cmd.CommandPath(), " ")
		rest, known := arguments[path]
		if !known {
			t.Errorf("%q is not tested here", path)
			return
		}
		t.Run(path, func(t *testing.T) {
			help, _, err := run(append(strings.Fields(path), "--help"))
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range shared {
				flags := strings.Fields(s.flags)
				for place, args := range map[string][]string{
					"before": append(strings.Fields(s.flags), strings.Fields(path+" "+rest)...),
					"after":  append(strings.Fields(path), append(flags, strings.Fields(rest)...)...),
				} {
					if place == "after" && path == "diff" && strings.HasPrefix(s.flags, "--from") { // has a flag of the same name
						continue
					}
					if strings.HasSuffix(path, "credentials") && strings.Contains(s.flags, "--node") { // likewise
						continue
					}
					out, said, err := run(args)
					refused := ctl.ExitCode(err) == 3 && strings.Contains(said, "does not use --")
					if refused {
						_, name, _ := strings.Cut(said, "does not use --")
						name, _, _ = strings.Cut(name, ":")
						if !strings.Contains(s.flags, name) && name != "output" {
							t.Errorf("%s %s: --%s was not given: %s", s.flags, place, name, said)
						}
						if regexp.MustCompile(`(?m)^ +(-o, )?--` + name + ` `).MatchString(help) {
							t.Errorf("--%s is in the help, and refused", name)
						}
						continue
					}
					shown := slices.ContainsFunc(strings.Split(s.shows, "|"), func(text string) bool { return strings.Contains(said, text) })
					switch {
					case !shown:
						t.Errorf("%s %s: neither honoured nor refused: %v\n%s", s.flags, place, err, said)
					case s.shows == "" && out != "" && !json.Valid([]byte(out)):
						t.Errorf("%s %s: no JSON:\n%s", s.flags, place, out)
					}
				}
			}
		})
	})
}

// leaves calls visit with each command that has no subcommands.
func leaves(cmd *cobra.Command, visit func(*cobra.Command)) {
	for _, sub := range cmd.Commands() {
		leaves(sub, visit)
	}
	if !cmd.HasSubCommands() {
		visit(cmd)
	}
}

// Flags that contradict each other, or have no effect together, are refused.
func TestFlagsWithoutEffectAreRefused(t *testing.T) {
	t.Setenv("CONTIVCTL_CONFIG", "")
	for args, want := range map[string]string{
		"--from x --agent a=unix:///x status":                  "--from selects the agents of the report: drop --agent",
		"--kubeconfig x --config y status":                     "--kubeconfig and --context select the agents: drop --config",
		"--context x --etcd-config y status":                   "drop --etcd-config",
		"--kubeconfig x uninstall --yes --kubeconfig y":        `--kubeconfig is set twice, before and after "uninstall"`,
		"--node a credentials ops --node b --dir d":            "--node is set twice",
		"preflight --here --context x":                         "--here does not access the cluster: drop --context",
		"preflight --host-root /host":                          "--host-root requires --here",
		"preflight -o yaml":                                    "use table or json",
		"-o yaml preflight":                                    "use table or json",
		"events -f -o name":                                    "-f does not support -o name",
		"denials -f -o jsonpath={.}":                           "-f does not support -o",
		"config get --client x":                                "--client requires --own",
		"config get --via etcd --client x":                     "--client requires gRPC",
		"config get --all --grpc unix:///x":                    "--all requires REST",
		"config schema --client x":                             "contivctl config schema does not query agents: drop --client",
		"config delete x --async":                              "--async requires --via etcd",
		"config delete x --grpc unix:///x --agent a=unix:///y": "--grpc selects the agent: drop --agent",
		"config delete x --grpc unix:///x --node a":            "--grpc selects the agent: drop --node",
		"install --timeout 0s":                                 "--timeout 0s: use a duration above 0",
	} {
		command := newCommand("contivctl", &bytes.Buffer{}, &bytes.Buffer{})
		command.SetArgs(strings.Fields(args))
		err := ctl.Execute(t.Context(), command)
		if err == nil || !strings.Contains(err.Error(), want) || ctl.ExitCode(err) != 3 {
			t.Errorf("contivctl %s: exit code %d, %v, not %s", args, ctl.ExitCode(err), err, want)
		}
	}
}
