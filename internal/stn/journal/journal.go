// Package journal is the file in which the STN daemon records each change before making it.
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/contiv/contiv/internal/stn/nic"
)

// Version of the format. A file of a newer version is refused, because this program might restore
// too little.
const Version = 1

// ErrNewer is wrapped by the error for a file of a newer version.
var ErrNewer = errors.New("the journal was written by a newer contiv-stn")

// Holder is the side that uses a network card.
type Holder string

const (
	Host    Holder = "host"
	VSwitch Holder = "vswitch"
)

// Journal is the content of the file.
type Journal struct {
	Version int `json:"version"`
	// Boot identifies the boot of the kernel in which it was written.
	Boot string   `json:"boot"`
	NICs []*Entry `json:"nics"`
}

// Entry is a network card claimed for the vswitch.
type Entry struct {
	Name string `json:"name"`
	DHCP bool   `json:"dhcp,omitempty"`
	// Holder is the vswitch from before the first change until after the last one that gives
	// the card back.
	Holder Holder    `json:"holder"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
	// PCI is the bus address of the card, "" if its driver stays. PCIDriver is its driver.
	PCI       string `json:"pci,omitempty"`
	PCIDriver string `json:"pciDriver,omitempty"`
	// XDP is the ID of the XDP program that the card had when it was claimed, 0 if none. Any other
	// program is VPP's. Detached is set while VPP's program is detached; VPP receives nothing
	// without it.
	XDP      uint32 `json:"xdp,omitempty"`
	Detached bool   `json:"detached,omitempty"`
	// ResolvConf is the content of the host's resolv.conf.
	ResolvConf string     `json:"resolvConf,omitempty"`
	State      *nic.State `json:"state"`
}

type File string

// Load reads the file. If it does not exist, the journal is empty.
func (f File) Load() (*Journal, error) {
	data, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return &Journal{Version: Version}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	var version struct{ Version int }
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, fmt.Errorf("journal %s is damaged: %w; restore the network cards from its content manually, or restart the machine, then remove the file", f, err)
	}
	if version.Version > Version {
		return nil, fmt.Errorf("%w: %s has version %d, but this program supports up to %d: run contiv-stn release of the newer version before you downgrade",
			ErrNewer, f, version.Version, Version)
	}
	var j Journal
	if err := json.Unmarshal(data, &j); err != nil {
		return nil, fmt.Errorf("journal %s is damaged: %w; restore the network cards from its content manually, or restart the machine, then remove the file", f, err)
	}
	for _, e := range j.NICs {
		if e == nil || e.State == nil || e.Name == "" {
			return nil, fmt.Errorf("journal %s is damaged: an entry has no name or no state; restore the network cards manually, or restart the machine, then remove the file", f)
		}
	}
	return &j, nil
}

// Save replaces the file. When it returns, the new content survives a power failure.
func (f File) Save(j *Journal) error {
	if err := f.save(j); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return nil
}

func (f File) save(j *Journal) error {
	j.Version = Version
	data, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Dir(string(f))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	next, err := os.OpenFile(string(f)+".next", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = next.Write(append(data, '\n'))
	if err = errors.Join(err, next.Sync(), next.Close()); err != nil {
		return err
	}
	if err := os.Rename(next.Name(), string(f)); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
