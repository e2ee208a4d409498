package nic

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// State is the configuration of a network card. It can be written to a file.
type State struct {
	Name   string `json:"name"`
	Index  int    `json:"index"`
	MAC    string `json:"mac"`
	MTU    int    `json:"mtu"`
	Driver string `json:"driver"`
	// Read is when it was read from the kernel.
	Read      time.Time `json:"read"`
	Addresses []Object  `json:"addresses"`
	Routes    []Object  `json:"routes"`
	// Settings are the device's files below /proc/sys/net.
	Settings map[string]string `json:"settings,omitempty"`
}

type Object struct {
	// Text is for people.
	Text string `json:"text"`
	// Message is the kernel's message, without the netlink header.
	Message []byte `json:"message"`
}

// Kernel is the network stack of the host.
type Kernel struct {
	*rtnl.Conn
	// NetNS is its network namespace.
	NetNS netns.NsHandle
	// BeforeStep, if not nil, is called before each change.
	BeforeStep func(what string)
}

func (k Kernel) before(what string) {
	if k.BeforeStep != nil {
		k.BeforeStep(what)
	}
}

func (k Kernel) Device(name string) (netlink.Link, error) {
	link, err := k.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	return link, nil
}

// Read reads the configuration of a device. It leaves out routes that the kernel makes itself: to the
// device's own addresses, and to link-local ones.
func (k Kernel) Read(name string) (*State, error) {
	link, err := k.Device(name)
	if err != nil {
		return nil, err
	}
	attrs := link.Attrs()
	s := &State{Name: name, Index: attrs.Index, MAC: attrs.HardwareAddr.String(), MTU: attrs.MTU, Driver: link.Type(), Read: time.Now()}
	if driver, _, err := k.Driver(name); err == nil && driver != "" {
		s.Driver = driver
	}
	if s.Addresses, err = k.addresses(s.Index); err != nil {
		return nil, fmt.Errorf("reading the addresses of %s: %w", name, err)
	}
	if s.Routes, err = k.routes(s.Index); err != nil {
		return nil, fmt.Errorf("reading the routes of %s: %w", name, err)
	}
	return s, nil
}

// Driver returns the name of a device's driver, and the address of the device on its bus, "" if it is
// on none. It asks the kernel about the device of the namespace, since /sys shows the devices of the
// namespace in which it was mounted.
func (k Kernel) Driver(name string) (driver, bus string, err error) {
	socket, err := nl.GetNetlinkSocketAt(k.NetNS, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return "", "", err
	}
	defer socket.Close()
	info, err := unix.IoctlGetEthtoolDrvinfo(socket.GetFd(), name)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return "", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("asking for the driver of %s: %w", name, err)
	}
	return unix.ByteSliceToString(info.Driver[:]), unix.ByteSliceToString(info.Bus_info[:]), nil
}

// Same reports whether two states are equal apart from their time.
func (s *State) Same(other *State) bool {
	return s.MAC == other.MAC && s.MTU == other.MTU && s.Index == other.Index &&
		slices.Equal(texts(s.Addresses), texts(other.Addresses)) && slices.Equal(texts(s.Routes), texts(other.Routes))
}

func texts(objects []Object) []string {
	list := make([]string, len(objects))
	for i, o := range objects {
		list[i] = o.Text
	}
	slices.Sort(list)
	return list
}

// Has reports whether the list contains an object with the same text.
func Has(objects []Object, text string) bool {
	return slices.ContainsFunc(objects, func(o Object) bool { return o.Text == text })
}

// Prefixes returns the addresses that others can reach.
func (s *State) Prefixes() (list []netip.Prefix) {
	for _, o := range s.Addresses {
		if a, ok := rtnl.ParseAddress(o.Message); ok && a.Prefix.Addr().IsGlobalUnicast() {
			list = append(list, a.Prefix)
		}
	}
	return list
}

// Temporary reports whether an address of an IP version expires at some time, as addresses from DHCP
// do.
func (s *State) Temporary() bool {
	return slices.ContainsFunc(s.Addresses, func(o Object) bool {
		a, ok := rtnl.ParseAddress(o.Message)
		return ok && a.Valid != 0
	})
}

// Set brings the device up with the configuration of the state, and returns the errors for parts that
// could not be restored. Parts that exist already, and parts that others have added, are left alone.
func (k Kernel) Set(s *State) error {
	link, err := k.Device(s.Name)
	if err != nil {
		return err
	}
	attrs := link.Attrs()
	var problems []error
	note := func(what string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("%s of %s: %w", what, s.Name, err))
		}
	}
	change := rtnl.LinkChange{Up: attrs.Flags&net.FlagUp == 0}
	if attrs.MTU != s.MTU && s.MTU > 0 {
		change.Mtu = uint32(s.MTU)
	}
	if mac, err := net.ParseMAC(s.MAC); err == nil && attrs.HardwareAddr.String() != s.MAC {
		k.before("set MAC")
		note("setting the MAC", k.SetLink(attrs.Index, rtnl.LinkChange{Mac: mac}))
	}
	if change.Up || change.Mtu != 0 {
		k.before("bring up")
		note("bringing up, and setting the MTU", k.SetLink(attrs.Index, change))
	}
	note("writing the settings", writeSettings(s))
	have, err := k.addresses(attrs.Index)
	note("reading the addresses", err)
	for _, o := range s.Addresses {
		if sameAddress(have, o) {
			continue
		}
		k.before("add address")
		note("adding the address "+o.Text, k.addAddress(o, attrs.Index, time.Since(s.Read)))
	}
	for _, o := range nearestFirst(s.Routes) {
		k.before("add route")
		note("adding the route "+o.Text, k.addRoute(o, s.Index, attrs.Index))
	}
	if len(problems) > 0 {
		return joined(problems)
	}
	return nil
}

// Lacks lists the parts of the state that the device does not have now.
func (k Kernel) Lacks(s *State) ([]string, error) {
	now, err := k.Read(s.Name)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, o := range s.Addresses {
		if !sameAddress(now.Addresses, o) && !expired(o, time.Since(s.Read)) {
			list = append(list, "address "+o.Text)
		}
	}
	for _, o := range s.Routes {
		if !Has(now.Routes, o.Text) {
			list = append(list, "route "+o.Text)
		}
	}
	return list, nil
}

// RemoveRoutes removes the routes of the device.
func (k Kernel) RemoveRoutes(routes []Object) error {
	var problems []error
	for _, o := range slices.Backward(nearestFirst(routes)) {
		k.before("remove route")
		m, err := requestable(o.Message, 0, 0)
		if err == nil {
			req := k.Request(unix.RTM_DELROUTE, 0)
			req.AddRawData(m)
			err = rtnl.IgnoreGone(k.Do(req))
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("removing the route %s: %w", o.Text, err))
		}
	}
	return joined(problems)
}

func joined(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	list := make([]string, len(problems))
	for i, err := range problems {
		list[i] = err.Error()
	}
	return fmt.Errorf("%s", strings.Join(list, "; "))
}

// settingsRoots lists the directories with the settings of devices.
var settingsRoots = []string{"/proc/sys/net/ipv4/conf", "/proc/sys/net/ipv6/conf"}

// ReadSettings adds the settings of the device, which are lost when a driver is bound again.
func (s *State) ReadSettings() {
	s.Settings = map[string]string{}
	for _, root := range settingsRoots {
		files, _ := os.ReadDir(filepath.Join(root, s.Name))
		for _, f := range files {
			path := filepath.Join(root, s.Name, f.Name())
			if text, err := os.ReadFile(path); err == nil && f.Type().IsRegular() {
				s.Settings[path] = strings.TrimSpace(string(text))
			}
		}
	}
}

// writeSettings writes the settings that differ. It ignores errors: some settings cannot be written,
// or do not exist in this kernel, and that is no reason to leave a node without network.
func writeSettings(s *State) error {
	for _, path := range slices.Sorted(maps.Keys(s.Settings)) {
		if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) != s.Settings[path] && filepath.Base(path) != "stable_secret" {
			_ = os.WriteFile(path, []byte(s.Settings[path]), 0)
		}
	}
	return nil
}
