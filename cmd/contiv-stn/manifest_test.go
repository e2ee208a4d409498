package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/stn/journal"
	"github.com/contiv/contiv/internal/stn/nic"
	"github.com/contiv/contiv/test/manifests"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// The static pod runs this program on the host's network, with persistent files on the host.
func TestStaticPod(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(manifests.Dir(), "stn", "contiv-stn.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(data, &pod); err != nil {
		t.Fatal(err)
	}
	c := pod.Spec.Containers[0]
	if !pod.Spec.HostNetwork || len(c.Command) != 1 || c.Command[0] != "contiv-stn" {
		t.Errorf("it runs %v on the host's network: %v", c.Command, pod.Spec.HostNetwork)
	}
	if agent := manifests.Programs(t, "contiv-agent"); agent[0].Container.Image != c.Image {
		t.Errorf("image %s is not the agent's, %s", c.Image, agent[0].Container.Image)
	}
	for _, e := range c.Env {
		t.Setenv(e.Name, e.Value)
	}
	cmd := command()
	flags := cmd.PersistentFlags()
	if err := fromEnvironment(flags); err != nil {
		t.Fatal(err)
	}
	onHost := map[string]string{}
	for _, v := range pod.Spec.Volumes {
		for _, m := range c.VolumeMounts {
			if m.Name == v.Name && v.HostPath != nil {
				onHost[m.MountPath] = v.HostPath.Path
			}
		}
	}
	for flag, want := range map[string]string{"socket": "/var/run/contiv", "state-dir": "/var/lib/contiv/stn", "resolv-conf": "/etc/resolv.conf"} {
		path := flags.Lookup(flag).Value.String()
		if flag == "socket" {
			path = filepath.Dir(path)
		}
		if onHost[path] != want {
			t.Errorf("--%s is in %s, which is the host's %q, want %s", flag, path, onHost[path], want)
		}
	}
}

// The service runs an existing program with existing flags.
func TestService(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(manifests.Dir(), "stn", "contiv-stn.service"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if start, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart="); ok {
			fields := strings.Fields(start)
			if filepath.Base(fields[0]) != "contiv-stn" {
				t.Errorf("it starts %s", fields[0])
			}
			if err := command().ParseFlags(fields[1:]); err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Error("it starts nothing")
}

// The status shows the holder of each card from the journal, with or without a running daemon.
func TestStatus(t *testing.T) {
	dir := t.TempDir()
	status := func() string {
		t.Helper()
		var out strings.Builder
		cmd := command()
		cmd.SetOut(&out)
		cmd.SetArgs([]string{"status", "--state-dir", dir})
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := status(); got != dir+"/journal.json: no network card is claimed for VPP.\n" {
		t.Errorf("without journal: %s", got)
	}
	entry := &journal.Entry{Name: "eth0", Holder: journal.Host, Reason: "VPP does not answer", State: &nic.State{}}
	if err := journal.File(filepath.Join(dir, "journal.json")).Save(&journal.Journal{NICs: []*journal.Entry{entry}}); err != nil {
		t.Fatal(err)
	}
	if got := status(); !strings.Contains(got, "eth0       host ") || !strings.Contains(got, "VPP does not answer") {
		t.Errorf("the status is\n%s", got)
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--agent-silent 1s", "--agent-silent 1s: use 2s or more"},
		{"--agent-absent -1s", "--agent-absent -1s: use 0s or more"},
		{"--start 1ms", "--start 1ms: use 1s or more"},
		{"--interconnect=", "--interconnect is empty"},
		{"more", "unknown command"},
	} {
		cmd := command()
		cmd.SetArgs(append(strings.Fields(c.args), "--socket", filepath.Join(t.TempDir(), "stn.sock")))
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.args, err, c.want)
		}
	}
	t.Setenv("CONTIV_STN_START", "soon")
	cmd := command()
	cmd.SetArgs(nil)
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "CONTIV_STN_START") {
		t.Errorf("wrong environment: %v", err)
	}
}

// Commands refuse daemon flags that they would ignore.
func TestFlagsWithoutUse(t *testing.T) {
	for _, c := range []struct {
		args string
		used bool
	}{
		{"status --socket /nope", false}, {"--socket /nope status", false}, {"release --state-dir /nope", false}, {"status --log-level DEBUG", false},
		{"status --state-dir DIR", true},
	} {
		cmd := command()
		cmd.SetArgs(strings.Fields(strings.ReplaceAll(c.args, "DIR", t.TempDir())))
		cmd.SetOut(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); errors.Is(err, errMisused) == c.used {
			t.Errorf("contiv-stn %s: %v", c.args, err)
		}
	}
}
