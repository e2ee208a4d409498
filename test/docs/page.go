package docs

import (
	"regexp"
	"slices"
	"strings"
)

// page is a file of the documentation.
type page struct {
	name  string // from the root of the repository
	lines []string
	steps []step
}

// step is a command and its documented output.
type step struct {
	line    int // of the command, from 0
	command string
	hidden  bool // it is in a comment
	// let is a word that stands for the command's output in later commands.
	let string
	// sample is lines[from:to] of the page, empty if they are equal.
	from, to int
	indent   string
}

// programs lists the first words of command lines without "$".
var programs = []string{
	"contivctl", "contiv-lab", "contiv-agent", "contiv-calico-routes", "contiv-cni", "contiv-etcd", "contiv-init", "contiv-ksr", "contiv-stn",
	"curl", "etcdctl", "export", "helm", "install", "ip", "kubectl", "make", "nft", "systemctl",
}

var assignments = regexp.MustCompile(`^(\w+=\S* +)+`)

// program returns the program of a command line, "" if it is not in programs.
func program(line string) string {
	word, _, _ := strings.Cut(assignments.ReplaceAllString(line, ""), " ")
	word = strings.TrimPrefix(word, "bin/")
	if slices.Contains(programs, word) {
		return word
	}
	return ""
}

const prompt = "$ "

var letComment = regexp.MustCompile(`^<!-- let: (\w+) = (.*) -->$`)

// parse finds the commands of a page.
func parse(name, text string) *page {
	p := &page{name: name, lines: strings.Split(text, "\n")}
	for i := 0; i < len(p.lines); i++ {
		line := p.lines[i]
		switch {
		case letComment.MatchString(line):
			m := letComment.FindStringSubmatch(line)
			p.steps = append(p.steps, step{line: i, command: m[2], hidden: true, let: m[1]})
		case strings.HasPrefix(line, "<!-- run: "):
			for ; i < len(p.lines); i++ {
				done := strings.HasSuffix(p.lines[i], "-->")
				if command := strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(p.lines[i], "<!-- run: "), "-->")); command != "" {
					p.steps = append(p.steps, step{line: i, command: command, hidden: true})
				}
				if done {
					break
				}
			}
		case strings.HasPrefix(line, "```"):
			end := i + 1
			for end < len(p.lines) && p.lines[end] != "```" {
				end++
			}
			p.block(i+1, end, "")
			i = end
		case strings.HasPrefix(line, "    ") && (i == 0 || p.lines[i-1] == ""):
			end := i
			for end < len(p.lines) && strings.HasPrefix(p.lines[end], "    ") {
				end++
			}
			p.block(i, end, "    ")
			i = end
		}
	}
	return p
}

// block finds the commands in lines[from:to].
func (p *page) block(from, to int, indent string) {
	text := func(i int) string { return strings.TrimPrefix(p.lines[i], indent) }
	prompted := slices.ContainsFunc(p.lines[from:to], func(line string) bool { return strings.HasPrefix(strings.TrimPrefix(line, indent), prompt) })
	if !prompted && (from == to || program(text(from)) == "") {
		return // a drawing, or a file
	}
	for i := from; i < to; {
		first := text(i)
		if prompted && !strings.HasPrefix(first, prompt) {
			i++ // between samples
			continue
		}
		s := step{line: i, command: strings.TrimPrefix(first, prompt), indent: indent}
		for i++; i < to && unfinished(s.command); i++ {
			s.command += "\n" + text(i)
		}
		s.from, s.to = i, i
		if prompted {
			for i < to && !strings.HasPrefix(text(i), prompt) {
				i++
			}
			for s.to = i; s.to > s.from && strings.TrimSpace(text(s.to-1)) == ""; {
				s.to--
			}
		}
		if strings.TrimSpace(s.command) != "" {
			p.steps = append(p.steps, s)
		}
	}
}

var heredoc = regexp.MustCompile(`<<'(\w+)'`)

// unfinished reports whether a command continues in the next line.
func unfinished(command string) bool {
	if m := heredoc.FindStringSubmatch(command); m != nil {
		return !strings.HasSuffix(command, "\n"+m[1])
	}
	return strings.HasSuffix(command, `\`) || strings.Count(strings.ReplaceAll(command, `\'`, ""), "'")%2 == 1
}

// sample returns the documented output of a step; "" if none.
func (p *page) sample(s step) string {
	var lines []string
	for _, line := range p.lines[s.from:s.to] {
		lines = append(lines, strings.TrimPrefix(line, s.indent))
	}
	return strings.Join(lines, "\n")
}

// with returns the page's text with other samples, by step index.
func (p *page) with(samples map[int]string) string {
	lines := slices.Clone(p.lines)
	for i := len(p.steps) - 1; i >= 0; i-- { // from the end, so that line numbers stay valid
		sample, other := samples[i]
		if !other {
			continue
		}
		var shown []string
		for line := range strings.SplitSeq(strings.TrimRight(sample, "\n"), "\n") {
			shown = append(shown, strings.TrimRight(p.steps[i].indent+line, " "))
		}
		lines = slices.Replace(lines, p.steps[i].from, p.steps[i].to, shown...)
	}
	return strings.Join(lines, "\n")
}
