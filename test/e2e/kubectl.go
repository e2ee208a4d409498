package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/test/lab"
)

// Kubectl runs kubectl as the cluster's administrator and returns its standard output.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.KubectlInput(ctx, nil, args...)
}

// KubectlInput is Kubectl with a standard input.
func (c *Cluster) KubectlInput(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	cmd := c.KubectlCommand(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	err := c.Start(cmd, c.underlay)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// KubectlCommand returns kubectl for Start. --timeout is multiplied by Options.Slow.
func (c *Cluster) KubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	args = slices.Clone(args)
	for i, arg := range args {
		text, is := strings.CutPrefix(arg, "--timeout=")
		if limit, err := time.ParseDuration(text); is && err == nil {
			args[i] = "--timeout=" + c.opts.limit(limit).String()
		}
	}
	cmd := exec.CommandContext(ctx, filepath.Join(c.opts.KubernetesDir, "kubectl"), args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig("admin"), "HOME="+c.path("home"))
	return cmd
}

// Contivctl runs contivctl as the cluster's administrator and returns its output.
func (c *Cluster) Contivctl(ctx context.Context, args ...string) (string, error) {
	return c.Run(ctx, nil, filepath.Join(c.opts.BinDir, "contivctl"), args...)
}

// Run runs a program as the cluster's administrator, with access to the API server, and returns its
// output.
func (c *Cluster) Run(ctx context.Context, env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(append(os.Environ(), "KUBECONFIG="+c.kubeconfig("admin"), "HOME="+c.path("home")), env...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := c.Start(cmd, c.underlay)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return output.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(program), strings.Join(args, " "), err, strings.TrimSpace(output.String()))
	}
	return output.String(), nil
}

// Start starts the command in the namespace of a node or of the control plane.
func (c *Cluster) Start(cmd *exec.Cmd, netns string) error {
	return lab.InNetns(lab.NetnsPath(netns), cmd.Start)
}

// Get reads objects from the API server; args are those of kubectl get.
func (c *Cluster) Get(ctx context.Context, into any, args ...string) error {
	out, err := c.Kubectl(ctx, append([]string{"get", "-o", "json"}, args...)...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), into)
}

// run runs a program in a namespace of the lab.
func (c *Cluster) run(ctx context.Context, netns, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := c.Start(cmd, netns)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(output.String()))
	}
	return nil
}
