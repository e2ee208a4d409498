package startup

import (
	"errors"
	"path/filepath"
	"strings"
)

// defaultRuntimeDir is VPP's, for root.
const defaultRuntimeDir = "/run/vpp"

// APISocketOf returns the API socket of a start-up configuration.
func APISocketOf(text string) (string, error) {
	words := words(text)
	dir := defaultRuntimeDir
	if unix, found := sectionOf(words, "unix"); found {
		if given := after(unix, "runtime-dir"); given != "" {
			dir = given
		}
	}
	socksvr, found := sectionOf(words, "socksvr")
	if !found {
		return "", errors.New("no section socksvr, so no agent can reach VPP: add socksvr { default }")
	}
	if name := after(socksvr, "socket-name"); name != "" {
		return name, nil
	}
	return filepath.Join(dir, "api.sock"), nil
}

// words splits a configuration without comments.
func words(text string) (list []string) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		list = append(list, strings.Fields(strings.NewReplacer("{", " { ", "}", " } ").Replace(line))...)
	}
	return list
}

// sectionOf returns the words between the braces of a section.
func sectionOf(words []string, name string) (inside []string, found bool) {
	depth := 0
	for i, word := range words {
		switch {
		case word == "{":
			depth++
		case word == "}":
			if depth--; depth == 0 && found {
				return inside, true
			}
		case depth == 0 && word == name && i+1 < len(words) && words[i+1] == "{":
			found = true
			continue
		}
		if found && (depth > 1 || depth == 1 && word != "{") {
			inside = append(inside, word)
		}
	}
	return inside, found
}

func after(words []string, name string) string {
	for i, word := range words {
		if word == name && i+1 < len(words) {
			return words[i+1]
		}
	}
	return ""
}
