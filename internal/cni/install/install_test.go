package install

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/containernetworking/cni/libcni"
)

func options(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "built")
	write(t, program, "#!/bin/sh\n")
	return Options{BinDir: filepath.Join(dir, "bin"), NetDir: filepath.Join(dir, "net.d"), Program: program,
		Server: filepath.Join(dir, "cni.sock"), LogFile: "/var/log/cni.log", Log: slog.New(slog.DiscardHandler)}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

// plugin installs a plugin that supports the versions. Without versions, it does not know VERSION.
func plugin(t *testing.T, o Options, name string, versions ...string) {
	t.Helper()
	supported, err := json.Marshal(versions)
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\necho '{\"cniVersion\":\"1.0.0\",\"supportedVersions\":" + string(supported) + "}'\n"
	if len(versions) == 0 {
		script = "#!/bin/sh\nexit 1\n"
	}
	write(t, filepath.Join(o.BinDir, name), script)
}

func TestVersionsOfTheChain(t *testing.T) {
	for name, test := range map[string]struct {
		chain                []string
		install              func(*testing.T, Options)
		version, newest, typ string
	}{
		"alone":        {nil, func(*testing.T, Options) {}, "1.0.0", "1.1.0", "contiv-cni"},
		"all are new":  {[]string{"portmap"}, func(t *testing.T, o Options) { plugin(t, o, "portmap", "0.4.0", "1.0.0", "1.1.0") }, "1.0.0", "1.1.0", "contiv-cni portmap"},
		"one is older": {[]string{"portmap"}, func(t *testing.T, o Options) { plugin(t, o, "portmap", "0.4.0", "1.0.0") }, "1.0.0", "1.0.0", "contiv-cni portmap"},
		"one is old":   {[]string{"portmap"}, func(t *testing.T, o Options) { plugin(t, o, "portmap", "0.3.1", "0.4.0") }, "0.4.0", "0.4.0", "contiv-cni portmap"},
		"one tells nothing": {[]string{"portmap", "tuning"}, func(t *testing.T, o Options) {
			plugin(t, o, "portmap", "1.0.0", "1.1.0")
			plugin(t, o, "tuning")
		}, "1.0.0", "1.0.0", "contiv-cni portmap tuning"},
		"one is not there": {[]string{"portmap", "bandwidth"}, func(t *testing.T, o Options) { plugin(t, o, "bandwidth", "1.0.0", "1.1.0") }, "1.0.0", "1.1.0", "contiv-cni bandwidth"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			o.Chain = test.chain
			test.install(t, o)
			data, err := o.conflist(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var raw struct{ CNIVersion string }
			if err := json.Unmarshal(data, &raw); err != nil || raw.CNIVersion != test.version {
				t.Errorf("cniVersion is %q (%v), want %s", raw.CNIVersion, err, test.version)
			}
			list, err := libcni.NetworkConfFromBytes(data)
			if err != nil {
				t.Fatal(err)
			}
			if list.CNIVersion != test.newest {
				t.Errorf("a current runtime uses %s, want %s", list.CNIVersion, test.newest)
			}
			var types []string
			for _, p := range list.Plugins {
				types = append(types, p.Network.Type)
			}
			if got := strings.Join(types, " "); got != test.typ {
				t.Errorf("chain %q, want %q", got, test.typ)
			}
			ours := list.Plugins[0].Network.Capabilities["portMappings"]
			if chained := strings.Contains(test.typ, "portmap"); ours == chained {
				t.Errorf("host ports are ours: %v, with the chain %s", ours, test.typ)
			}
		})
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ conflist, want string }{
		"no JSON":            {`{"name"`, "not a JSON object"},
		"no name":            {`{"plugins":[{"type":"contiv-cni"}]}`, `"name" is missing`},
		"no plugins":         {`{"name":"n"}`, `"plugins" is missing`},
		"without contiv-cni": {`{"name":"n","plugins":[{"type":"old"}]}`, "contiv-cni"},
		"plugin of no type":  {`{"name":"n","plugins":[{"type":"contiv-cni"},{}]}`, "plugin 2"},
		"plugin elsewhere":   {`{"name":"n","plugins":[{"type":"contiv-cni"},{"type":"../x"}]}`, "plugin 2"},
		"missing plugin":     {`{"name":"n","plugins":[{"type":"contiv-cni"},{"type":"absent"}]}`, `"absent" is not installed`},
		"version too new":    {`{"name":"n","cniVersion":"1.1.0","plugins":[{"type":"contiv-cni"},{"type":"old"}]}`, `"old" supports "cniVersion" 0.4.0, 1.0.0, but not "1.1.0"`},
		"versions too old":   {`{"name":"n","plugins":[{"type":"contiv-cni"},{"type":"new"}]}`, "no CNI version up to 1.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			plugin(t, o, "old", "0.4.0", "1.0.0")
			plugin(t, o, "new", "1.1.0")
			o.Conflist = filepath.Join(t.TempDir(), "given")
			write(t, o.Conflist, test.conflist)
			if err := Install(t.Context(), o); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if _, err := os.Stat(o.NetDir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s exists: %v", o.NetDir, err)
			}
		})
	}
}

func TestGivenConfigurationIsKept(t *testing.T) {
	o := options(t)
	o.Conflist = filepath.Join(t.TempDir(), "given")
	write(t, o.Conflist, `{"name":"n","cniVersion":"0.3.1","disableGC":true,"plugins":[{"type":"contiv-cni","mine":[1]}]}`)
	data, err := o.conflist(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(got)
	if want := `{"cniVersion":"0.3.1","disableGC":true,"name":"n","plugins":[{"mine":[1],"type":"contiv-cni"}]}`; string(text) != want {
		t.Errorf("got %s, want %s", text, want)
	}
}

// A write that fails halfway, as on a full disk, changes nothing.
func TestReplaceIsAllOrNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "net.d", "x.conflist")
	broken := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("no space left")))
	if _, err := replace(path, 0o600, broken); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	expect := func(when, content string, files int) {
		t.Helper()
		data, err := os.ReadFile(path)
		if string(data) != content {
			t.Errorf("%s: content %q (%v), want %q", when, data, err, content)
		}
		if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != files {
			t.Errorf("%s: %v", when, entries)
		}
	}
	expect("first write fails", "", 0)
	put := func(content string, wantChanged bool) {
		t.Helper()
		if changed, err := replace(path, 0o600, strings.NewReader(content)); err != nil || changed != wantChanged {
			t.Errorf("changed %v, error %v", changed, err)
		}
	}
	put("one", true)
	expect("first write", "one", 1)
	before, _ := os.Stat(path)
	put("one", false)
	if after, _ := os.Stat(path); !os.SameFile(before, after) {
		t.Error("a file with the same content was replaced")
	}
	put("two", true)
	if _, err := replace(path, 0o600, iotest.ErrReader(errors.New("no space left"))); err == nil {
		t.Error("no error")
	}
	expect("later write fails", "two", 1)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	put("two", true)
}

func TestUninstall(t *testing.T) {
	o := options(t)
	for _, file := range []string{"net.d/10-contiv-vpp.conflist", "net.d/.10-contiv-vpp.conflist.tmp-1", "net.d/99-other.conflist", "bin/contiv-cni", "bin/.contiv-cni.tmp-2", "bin/portmap"} {
		write(t, filepath.Join(filepath.Dir(o.BinDir), file), "x")
	}
	left := func() string {
		var list []string
		for _, dir := range []string{o.NetDir, o.BinDir} {
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				list = append(list, e.Name())
			}
		}
		return strings.Join(list, " ")
	}
	o.KeepProgram = true
	for _, want := range []string{"99-other.conflist contiv-cni portmap", "99-other.conflist portmap", "99-other.conflist portmap"} {
		if err := Uninstall(o); err != nil {
			t.Fatal(err)
		}
		if got := left(); got != want {
			t.Errorf("left: %s, want %s", got, want)
		}
		o.KeepProgram = false
	}
	o.BinDir, o.NetDir = "/nonexistent/bin", "/nonexistent/net.d"
	if err := Uninstall(o); err != nil {
		t.Errorf("where nothing was ever installed: %v", err)
	}
}

func TestWaitForTheAgentEndsWithTheContext(t *testing.T) {
	o := options(t)
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Install(given, o); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(o.conflistPath()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("configuration: %v", err)
	}
	if _, err := os.Stat(o.program()); err != nil {
		t.Errorf("program: %v", err)
	}
}
