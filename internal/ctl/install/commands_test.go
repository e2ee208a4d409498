package install

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/spf13/cobra"
)

// runCommand runs a command with arguments. FILE stands for a file of chart values, CONF for a
// contiv.conf.
func runCommand(t *testing.T, text string, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"values.yaml", "contiv.conf"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range args {
		args[i] = strings.NewReplacer("FILE", filepath.Join(dir, "values.yaml"), "CONF", filepath.Join(dir, "contiv.conf")).Replace(args[i])
	}
	var out bytes.Buffer
	root := &cobra.Command{Use: "contivctl", SilenceErrors: true, SilenceUsage: true}
	root.PersistentFlags().String("output", "table", "")
	root.AddCommand(Commands(&out, io.Discard)...)
	root.SetArgs(args)
	root.SetOut(&out)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// A mistake is reported before any change, in the user's terms.
func TestMistakesOfUsers(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	const dryRun = "install --dry-run "
	for _, c := range []struct{ args, text, want string }{
		{dryRun + "--image contiv/contiv:v1,x", "", `--image: "contiv/contiv:v1,x" is not an image name such as registry.example.com/contiv:v1`},
		{dryRun + "--vpp --vpp-image Contiv:v1", "", `--vpp-image: "Contiv:v1" is not an image name such as registry.example.com/contiv:v1`},
		{dryRun + "--values FILE", "contiv: {ipamConfig: {podSubnetCIDR: 10.1.0.0/33}}", `contiv.conf: option ipamConfig.podSubnetCIDR`},
		{dryRun + "--conf CONF", "ipamConfig: {podSubnetCIDR: 10.1.0.0/33}", `contiv.conf: option ipamConfig.podSubnetCIDR`},
		{dryRun + "--values FILE", "etcd: {members: [{node: a, ip: 192.0.2.1}, {node: b, ip: 192.0.2.2}]}", "contivctl: etcd.members: name an odd number"},
		{dryRun + "--values FILE", "monitoring: {serviceMonitor: {enabled: true}}", "contivctl: monitoring: a ServiceMonitor finds nothing"},
		{dryRun + "--values FILE", "monitoring: {servicMonitor: {enabled: true}}", `the chart has no value monitoring.servicMonitor: did you mean "serviceMonitor"?`},
		{dryRun + "--values FILE", "[contiv]", "values.yaml: not a map of values such as contiv: {mtuSize: 1400}"},
		{dryRun + "--values FILE", "etcd: {quotaMiB: 1024}\netcd: {dataDir: /x}\n", `key "etcd" already set`},
		{"preflight", "", "contivctl: no kubeconfig: set an administrator's kubeconfig with --kubeconfig or KUBECONFIG"},
	} {
		_, err := runCommand(t, c.text, strings.Fields(c.args)...)
		if err == nil || !strings.Contains("contivctl: "+err.Error(), c.want) {
			t.Errorf("contivctl %s, with %s: %v, not %s", c.args, c.text, err, c.want)
		}
	}
	for _, image := range []string{"contiv", "contiv:v1", "registry:5000/a/b_c:V1.2-x", "[2001:db8::1]:5000/contiv", "docker.io/contiv/contiv@sha256:" + strings.Repeat("a", 64)} {
		if out, err := runCommand(t, "", "install", "--dry-run", "--image", image); err != nil || !strings.Contains(out, image) {
			t.Errorf("image %s: %v", image, err)
		}
	}
}

// Mistakes are reported with the names of the user's files and without parser terms.
func TestMistakesInFiles(t *testing.T) {
	_, err := runCommand(t, "", strings.Fields("install --dry-run --conf bad.conf")...)
	if err == nil || !strings.Contains(err.Error(), "use one of contiv.conf, controller.conf") || strings.Contains(err.Error(), apiServerKey) {
		t.Errorf("an unknown name: %v", err)
	}
	for text, want := range map[string]string{
		"a: 1\nb: {}\na: 2\na: 3\n": `invalid YAML: line 3: key "a" already set in map; line 4: key "a" already set in map`,
		"a: [1\nb: 2\n":             "invalid YAML: line ",
	} {
		if _, err := parseValues([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// Mistakes in flags, but not in files, have the exit code of usage errors.
func TestMistakesInFlags(t *testing.T) {
	for args, mistake := range map[string]bool{
		"install --dry-run --image contiv/contiv:v1,x": true,
		"upgrade --conf mtu.conf":                      true,
		"upgrade --conf " + apiServerKey:               true,
		"install --dry-run --without-etcd":             true,
		"install --dry-run --conf CONF":                false,
	} {
		if _, err := runCommand(t, "mtuSize: 1", strings.Fields(args)...); err == nil || errors.Is(err, text.ErrMistake) != mistake {
			t.Errorf("contivctl %s: %v, a mistake in the command line: %v", args, err, !mistake)
		}
	}
}

// An upgrade ignores mistakes in configuration files that it does not name.
func TestUpgradesCheckWhatTheyName(t *testing.T) {
	m := Manifests{Config: map[string]string{"contiv.conf": "ipamConfig: {podSubnetCIDR: 10.1.0.0/33}"}}
	objects, err := m.objects(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := checkConfiguration(objects, m.names); err == nil {
		t.Error("the named file passes")
	}
	if err := checkConfiguration(objects, (&Manifests{Image: "other"}).names); err != nil {
		t.Errorf("a file that nobody named: %v", err)
	}
	if err := checkConfiguration(objects, (&Manifests{Values: map[string]any{"contiv": map[string]any{"mtuSize": 1400}}}).names); err == nil {
		t.Error("the file of a value passes")
	}
}
