package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/labtest"
)

const commandsPage = "docs/reference/commands.md"

const commandsPreface = `<!-- Written by ` + "`make reference`" + `. -->
# Commands

The help texts of all programs, to search in one place. The guides explain when to use which command:
[contivctl](../user/contivctl.md), [contiv-lab](../user/lab.md), [the agent](../operator/agent.md). Flags that all
subcommands of a program inherit are listed once, with the program.
`

var (
	subcommand  = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +\S`)
	globalFlags = regexp.MustCompile(`(?s)\nGlobal Flags:\n.*?(\n\n|$)`)
)

// The page has the help text of each command.
func TestCommandsPage(t *testing.T) {
	if binaries == "" {
		t.Skip("TestMain builds the programs only for root; run the tests as root")
	}
	var page strings.Builder
	page.WriteString(commandsPreface)
	for _, program := range []string{"contivctl", "contiv-lab", "contiv-agent", "contiv-ksr", "contiv-etcd", "contiv-cni", "contiv-init", "contiv-stn", "contiv-calico-routes"} {
		fmt.Fprintf(&page, "\n## %s\n", program)
		describe(t, &page, program)
	}
	file := filepath.Join(labtest.Root, filepath.FromSlash(commandsPage))
	if *update {
		if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != page.String() {
		t.Errorf("%s does not have the help texts of the programs: run make reference (%v)", commandsPage, err)
	}
}

// describe appends the help of a command and of its subcommands.
func describe(t *testing.T, page *strings.Builder, program string, path ...string) {
	t.Helper()
	text := helpOf(t, program, path...)
	if len(path) > 0 {
		fmt.Fprintf(page, "\n### %s %s\n", program, strings.Join(path, " "))
		text = globalFlags.ReplaceAllString(text, "\n")
	}
	fmt.Fprintf(page, "\n```text\n%s\n```\n", strings.TrimSpace(text))
	for _, name := range subcommands(text) {
		describe(t, page, program, append(path[:len(path):len(path)], name)...)
	}
}

// subcommands returns the commands that a help text lists, except the ones that cobra adds, and "ctl"
// of contiv-lab, which passes its flags on.
func subcommands(help string) (names []string) {
	_, list, found := strings.Cut(help, "\nAvailable Commands:\n")
	if !found {
		return nil
	}
	list, _, _ = strings.Cut(list, "\n\n")
	for _, match := range subcommand.FindAllStringSubmatch(list, -1) {
		if match[1] != "help" && match[1] != "completion" && match[1] != "ctl" {
			names = append(names, match[1])
		}
	}
	return names
}

// helpOf returns a help text. No text depends on this machine.
func helpOf(t *testing.T, program string, path ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(binaries, program), append(path, "--help")...)
	cmd.Env = []string{"HOME=/root", "PATH=" + os.Getenv("PATH")}
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", cmd, err, output)
	}
	return string(output)
}
