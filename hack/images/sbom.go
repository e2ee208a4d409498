package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
)

// billPath is the path of the bill of material in an image.
const billPath = "usr/share/sbom/contiv.spdx.json"

// billOfMaterial lists, as SPDX 2.3 in JSON, the Debian packages and the Go modules recorded in the
// programs.
func (k kind) billOfMaterial(r release, arch string, debian []debianPackage, programDir string) ([]byte, error) {
	created := r.created.Format("2006-01-02T15:04:05Z")
	document := &spdx.Document{
		SPDXVersion:       spdx.Version,
		DataLicense:       spdx.DataLicense,
		SPDXIdentifier:    "DOCUMENT",
		DocumentName:      k.name + "-" + r.version + "-" + arch,
		DocumentNamespace: "https://github.com/contiv/contiv/sbom/" + r.version + "/" + k.name + "/" + arch,
		CreationInfo:      &spdx.CreationInfo{Creators: []common.Creator{{CreatorType: "Tool", Creator: "contiv-images"}}, Created: created},
	}
	root := addPackage(document, "Image", k.name, r.version, "pkg:oci/"+k.name+"@"+r.version+"?arch="+arch)
	root.PackageLicenseDeclared = "Apache-2.0"
	for _, p := range debian {
		addPackage(document, "Debian-"+p.name, p.name, p.version, "pkg:deb/debian/"+p.name+"@"+p.version+"?arch="+arch).
			PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: p.sha256}}
	}
	modules := map[string]string{}
	for _, program := range k.programs {
		info, err := buildinfo.ReadFile(filepath.Join(programDir, program))
		if err != nil {
			return nil, err
		}
		modules["stdlib"] = strings.TrimPrefix(info.GoVersion, "go")
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			modules[m.Path] = m.Version
		}
	}
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		addPackage(document, "Go-"+path, path, modules[path], "pkg:golang/"+path+"@"+modules[path])
	}
	document.Relationships = []*spdx.Relationship{{RefA: common.MakeDocElementID("", "DOCUMENT"), RefB: common.MakeDocElementID("", "Image"), Relationship: common.TypeRelationshipDescribe}}
	for _, p := range document.Packages[1:] {
		document.Relationships = append(document.Relationships, &spdx.Relationship{
			RefA: common.MakeDocElementID("", "Image"), RefB: common.MakeDocElementID("", string(p.PackageSPDXIdentifier)), Relationship: common.TypeRelationshipContains,
		})
	}
	var text bytes.Buffer
	if err := spdxjson.Write(document, &text, spdxjson.Indent(" ")); err != nil {
		return nil, fmt.Errorf("writing the bill of material: %w", err)
	}
	return text.Bytes(), nil
}

// addPackage adds a package to a document and returns it.
func addPackage(document *spdx.Document, id, name, version, purl string) *spdx.Package {
	p := &spdx.Package{
		PackageSPDXIdentifier:   common.ElementID(spdxID(id)),
		PackageName:             name,
		PackageVersion:          version,
		PackageDownloadLocation: "NOASSERTION",
		PackageLicenseConcluded: "NOASSERTION",
		PackageLicenseDeclared:  "NOASSERTION",
		PackageCopyrightText:    "NOASSERTION",
		PackageExternalReferences: []*spdx.PackageExternalReference{
			{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: purl},
		},
	}
	document.Packages = append(document.Packages, p)
	return p
}

// spdxID makes an identifier of letters, digits, dots and dashes.
func spdxID(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		}
		return '-'
	}, name)
}
