package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/lib/version"
	"github.com/contiv/contiv/test/lab"
)

// shell runs commands of pages with a lab's programs. contivctl uses the lab's agents; etcdctl uses
// etcd as root unless the page exports other credentials; nft and ip run on node1; curl uses KSR.
type shell struct {
	lab     string
	dir     string // working directory, which contains bin
	exports []string
}

// newShell creates the programs of a lab, which need not run yet.
func newShell(dir, binaries, name string) (*shell, error) {
	path, root := os.Getenv("PATH"), filepath.Join(lab.Root, name)
	at := func(place string) string { return "exec nsenter --net=" + lab.NetnsPath(name+"-"+place) + " " }
	scripts := map[string]string{
		"contiv-lab": fmt.Sprintf("exec %s/contiv-lab --quiet --name %s", binaries, name),
		"contivctl":  fmt.Sprintf("export CONTIVCTL_CONFIG=%s/contivctl.yaml TZ=UTC; ", root) + at("underlay") + binaries + "/contivctl",
		"etcdctl": fmt.Sprintf("export ETCDCTL_API=3 ETCDCTL_ENDPOINTS=${ETCDCTL_ENDPOINTS:-https://192.168.16.254:32379} "+
			"ETCDCTL_CACERT=${ETCDCTL_CACERT:-%[1]s/pki/ca.crt} ETCDCTL_CERT=${ETCDCTL_CERT:-%[1]s/pki/root.crt} ETCDCTL_KEY=${ETCDCTL_KEY:-%[1]s/pki/root.key}; ", root) + at("underlay") + "etcdctl",
		"nft":  at("node1") + "nft",
		"ip":   at("node1") + "ip",
		"curl": "exec curl --unix-socket " + root + "/ksr.sock",
	}
	s := &shell{lab: name, dir: dir}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o700); err != nil {
		return nil, err
	}
	for program, script := range scripts {
		text := fmt.Sprintf("#!/bin/sh\nexport PATH='%s'\n%s \"$@\"\n", path, script)
		if err := os.WriteFile(filepath.Join(dir, "bin", program), []byte(text), 0o700); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// shownVersion is the programs' version in samples.
const shownVersion = "f2987fd"

const commandTimeout = 2 * time.Minute

// run returns both outputs of a command. Its exports apply to later commands.
func (s *shell) run(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", strings.Join(append(s.exports, command), "\n"))
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(s.dir, "bin")+":"+os.Getenv("PATH"), "COLUMNS=")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if program(command) == "export" {
		s.exports = append(s.exports, command)
	}
	return strings.NewReplacer(s.lab, lab.DefaultName, version.Version, shownVersion).Replace(string(out)), err
}
