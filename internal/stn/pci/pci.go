// Package pci moves PCI devices between drivers with driver_override. That touches no other device
// of the same IDs, and the driver need not know the IDs.
package pci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Sysfs gives access to files below /sys.
type Sysfs interface {
	// Write writes to a file, as a request to the kernel.
	Write(path, text string) error
	// Resolve returns the path without symbolic links, relative to /sys.
	Resolve(path string) (string, error)
	// List returns the names in a directory.
	List(path string) ([]string, error)
}

type Bus struct{ Sysfs }

func This() Bus { return Bus{dir("/sys")} }

type dir string

func (d dir) Write(path, text string) error {
	f, err := os.OpenFile(filepath.Join(string(d), path), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func (d dir) Resolve(path string) (string, error) {
	full, err := filepath.EvalSymlinks(filepath.Join(string(d), path))
	if err != nil {
		return "", err
	}
	return filepath.Rel(string(d), full)
}

func (d dir) List(path string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(string(d), path))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// Has reports whether a device with the address, such as 0000:00:08.0, exists.
func (b Bus) Has(address string) (bool, error) {
	_, err := b.Resolve(device(address))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking up PCI device %s: %w", address, err)
	}
	return true, nil
}

// DriverOf returns the driver of a PCI device; "" if it has none.
func (b Bus) DriverOf(address string) (string, error) {
	path, err := b.Resolve(device(address) + "/driver")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("looking up the driver of %s: %w", address, err)
	}
	return filepath.Base(path), nil
}

func device(address string) string { return "bus/pci/devices/" + address }

// Bind binds a device to a driver. It does nothing if the device already has it.
func (b Bus) Bind(address, driver string) error {
	if err := b.bind(address, driver); err != nil {
		return fmt.Errorf("binding PCI device %s to the driver %s: %w", address, driver, err)
	}
	return nil
}

func (b Bus) bind(address, driver string) error {
	if drivers, err := b.List("bus/pci/drivers"); err != nil {
		return err
	} else if !slices.Contains(drivers, driver) {
		return fmt.Errorf("the kernel has no such driver: load it, for example with `modprobe %s`", driver)
	}
	now, err := b.DriverOf(address)
	if err != nil {
		return err
	}
	if err := b.Write(device(address)+"/driver_override", driver); err != nil {
		return err
	}
	if now == driver {
		return nil
	}
	if now != "" {
		if err := b.Write(device(address)+"/driver/unbind", address); err != nil {
			return err
		}
	}
	if err := b.Write("bus/pci/drivers_probe", address); err != nil {
		return err
	}
	switch now, err = b.DriverOf(address); {
	case err != nil:
		return err
	case now == "":
		return errors.New("the driver refused it: see the kernel's log (dmesg)")
	case now != driver:
		return fmt.Errorf("driver %s is bound to it", now)
	}
	return nil
}

// Return binds a device to its former driver, and lets the kernel choose drivers again.
func (b Bus) Return(address, driver string) error {
	if err := b.Bind(address, driver); err != nil {
		return err
	}
	if err := b.Write(device(address)+"/driver_override", "\n"); err != nil {
		return fmt.Errorf("letting the kernel choose the driver of PCI device %s: %w", address, err)
	}
	return nil
}

// NetDevices returns the network devices of a PCI device.
func (b Bus) NetDevices(address string) (names []string, err error) {
	for _, path := range []string{device(address) + "/net"} {
		some, err := b.List(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		names = append(names, some...)
	}
	children, err := b.List(device(address))
	if err != nil {
		return nil, err
	}
	for _, child := range children {
		if strings.HasPrefix(child, "virtio") {
			some, _ := b.List(device(address) + "/" + child + "/net")
			names = append(names, some...)
		}
	}
	return names, nil
}
