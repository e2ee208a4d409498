package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/reference/licenses.md or metrics.md")

const licensesPage = "../../docs/reference/licenses.md"

// accepted lists licences that our code may be linked with, by words that are only in their texts,
// in order of evaluation.
var accepted = []struct {
	id    string // SPDX
	words []string
}{
	{"Apache-2.0", []string{"apache license", "version 2.0"}},
	{"MPL-2.0", []string{"mozilla public license", "version 2.0"}},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "endorse or promote products"}},
	{"BSD-2-Clause", []string{"redistribution and use in source and binary forms"}},
	{"ISC", []string{"permission to use, copy, modify, and/or distribute this software for any purpose with or without fee"}},
	{"ISC", []string{"permission to use, copy, modify, and distribute this software for any purpose with or without fee"}},
	{"MIT", []string{"permission is hereby granted, free of charge", "the above copyright notice and this permission notice"}},
	{"Unlicense", []string{"this is free and unencumbered software released into the public domain"}},
}

// dependency is a module in go list's output.
type dependency struct {
	Path, Version, Dir string
	Main               bool
	Replace            *dependency
}

// docs/reference/licenses.md names the licence of each module linked into our programs. go test -run Licenses
// -update ./test/house writes it.
func TestLicenses(t *testing.T) {
	var page strings.Builder
	page.WriteString("<!-- Written by `make reference`. -->\n# Licences\n\nThis page lists the Go modules in Contiv's programs with their licences. Contiv itself is under\n" +
		"the [Apache License 2.0](../../LICENSE). A test fails for a module with a missing or incompatible\nlicence.\n\n| module | version | licence |\n|---|---|---|\n")
	for _, m := range linkedModules(t) {
		ids, err := licensesOf(m.Dir)
		if err != nil {
			t.Errorf("%s %s: %v", m.Path, m.Version, err)
			continue
		}
		fmt.Fprintf(&page, "| `%s` | `%s` | %s |\n", m.Path, m.Version, strings.Join(ids, " and "))
	}
	page.WriteString("\nImages also contain Debian packages. The [bill of materials](../operator/install.md#images) lists\nthem, and `/usr/share/doc` of the image holds their licences.\n")
	if *update {
		if err := os.WriteFile(licensesPage, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if data, err := os.ReadFile(licensesPage); err != nil || string(data) != page.String() {
		t.Errorf("docs/reference/licenses.md is not current: go test ./test/house -run Licenses -update (%v)", err)
	}
}

// linkedModules returns the modules with packages in our programs, for the architectures of the
// images.
func linkedModules(t *testing.T) []dependency {
	t.Helper()
	found := map[string]dependency{}
	for _, arch := range []string{"amd64", "arm64"} {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Module", "./cmd/...")
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "GOARCH="+arch, "GOOS=linux", "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
			var pkg struct{ Module *dependency }
			if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if pkg.Module == nil { // of the standard library
				continue
			}
			m := *pkg.Module
			if m.Replace != nil {
				m = *m.Replace
			}
			if !m.Main {
				found[m.Path] = m
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b dependency) int { return strings.Compare(a.Path, b.Path) })
}

// licensesOf returns the licences in a module's licence files.
func licensesOf(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, entry := range entries {
		name := strings.ToUpper(entry.Name())
		if entry.IsDir() || !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") || strings.HasSuffix(name, ".GO") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		id := licenseOf(string(data))
		if id == "" {
			return nil, fmt.Errorf("%s is no licence that is known to go together with ours: look at it, and replace the module or add the licence to the list", entry.Name())
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, errors.New("it has no file with a licence")
	}
	return ids, nil
}

func licenseOf(text string) string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	for _, license := range accepted {
		if !slices.ContainsFunc(license.words, func(words string) bool { return !strings.Contains(text, words) }) {
			return license.id
		}
	}
	return ""
}

func TestLicensesThatAreNotAccepted(t *testing.T) {
	for _, text := range []string{"", "All rights reserved.", "GNU GENERAL PUBLIC LICENSE Version 2, June 1991", "GNU AFFERO GENERAL PUBLIC LICENSE"} {
		if id := licenseOf(text); id != "" {
			t.Errorf("%q is taken for %s", text, id)
		}
	}
}
