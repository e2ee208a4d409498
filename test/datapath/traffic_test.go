package datapath

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/test/lab"
)

// The first byte of a connection selects the behaviour of the server.
const (
	discard = 'd'
	echo    = 'e'
)

// serve starts the server of a pair. It ends with the benchmark.
func (p pair) serve(b *testing.B) {
	b.Helper()
	var listener net.Listener
	err := lab.InNetns(lab.NetnsPath(p.server), func() (err error) {
		listener, err = net.Listen("tcp", p.listen.String())
		return err
	})
	if err != nil {
		b.Fatalf("%s: %v", p.name, err)
	}
	b.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go answer(c)
		}
	}()
}

func answer(c net.Conn) {
	defer c.Close()
	mode := make([]byte, 1)
	if _, err := c.Read(mode); err != nil {
		return
	}
	buffer := make([]byte, 1<<20)
	for {
		n, err := c.Read(buffer)
		if err == nil && mode[0] == echo {
			_, err = c.Write(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

func (p pair) connect(mode byte) (c net.Conn, err error) {
	err = lab.InNetns(lab.NetnsPath(p.client), func() error {
		c, err = net.DialTimeout("tcp", p.dial.String(), 5*time.Second)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	_, err = c.Write([]byte{mode})
	return c, err
}

// measured holds values by column of the table.
type measured map[string]float64

func (p pair) oneStream(during time.Duration) (measured, error) {
	rate, cpu, err := p.streams(1, during)
	return measured{"1 stream: Gb/s": rate, "CPU s/Gb": cpu}, err
}

func (p pair) eightStreams(during time.Duration) (measured, error) {
	rate, _, err := p.streams(8, during)
	return measured{"8 streams: Gb/s": rate}, err
}

// streams sends on n TCP connections at once. It returns the rate in Gb/s, and the CPU time of the
// machine in seconds per Gb.
func (p pair) streams(n int, during time.Duration) (rate, cpu float64, err error) {
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := p.connect(discard)
		if err != nil {
			return 0, 0, err
		}
		defer c.Close()
		conns[i] = c
	}
	var sent atomic.Int64
	var failed atomic.Pointer[error]
	send := func(c net.Conn, until time.Time) {
		data := make([]byte, 1<<20)
		for time.Now().Before(until) {
			n, err := c.Write(data)
			if err != nil {
				failed.Store(&err)
				return
			}
			sent.Add(int64(n))
		}
	}
	all := func(during time.Duration) {
		var group sync.WaitGroup
		until := time.Now().Add(during)
		for _, c := range conns {
			group.Go(func() { send(c, until) })
		}
		group.Wait()
	}
	all(during / 10) // windows grow
	sent.Store(0)
	before, began := busy(), time.Now()
	all(during)
	gigabits := float64(sent.Load()) * 8 / 1e9
	took := time.Since(began).Seconds()
	if err := failed.Load(); err != nil {
		return 0, 0, *err
	}
	return gigabits / took, (busy() - before).Seconds() / gigabits, nil
}

// requests sends a byte and waits for it, repeatedly.
func (p pair) requests(during time.Duration) (measured, error) {
	c, err := p.connect(echo)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var times []time.Duration
	buffer := make([]byte, 1)
	began := time.Now()
	for time.Since(began) < during {
		start := time.Now()
		if _, err := c.Write(buffer); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(c, buffer); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
	}
	perSecond := float64(len(times)) / time.Since(began).Seconds()
	slices.Sort(times)
	half := func(percent int) float64 { return float64(lab.Percentile(times, percent).Nanoseconds()) / 2000 }
	return measured{"requests/s": perSecond, "half-RTT p50 µs": half(50), "p99 µs": half(99)}, nil
}

// connections opens TCP connections one after the other.
func (p pair) connections(during time.Duration) (measured, error) {
	n, began := 0, time.Now()
	err := lab.InNetns(lab.NetnsPath(p.client), func() error {
		for time.Since(began) < during {
			c, err := net.DialTimeout("tcp", p.dial.String(), 5*time.Second)
			if err != nil {
				return err
			}
			err = errors.Join(c.(*net.TCPConn).SetLinger(0), c.Close())
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return measured{"connections/s": float64(n) / time.Since(began).Seconds()}, err
}

// busy returns the CPU time that the machine has used, interrupts included.
func busy() time.Duration {
	data, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(data), "\n")
	var ticks int64
	for i, field := range strings.Fields(line)[1:] {
		if n, err := strconv.ParseInt(field, 10, 64); err == nil && i != 3 && i != 4 && i < 8 { // idle, iowait
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / 100
}
