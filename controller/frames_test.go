package controller_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/contiv/contiv/controller"
)

func TestFramedEventLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := &rig{t: t}
		r.sched = &fakeScheduler{rig: r}
		r.a, r.b = &handler{name: "ipam", rig: r}, &handler{name: "ipnet", rig: r}
		r.Controller = controller.New(controller.Options{
			Config: controller.DefaultConfig(), Scheduler: r.sched, Log: silentLog, EventLog: &log,
		})
		r.Register(r.a, r.b)
		r.Start()
		defer r.Close(t.Context())
		r.started()
		r.a.update = putting("k/1", iface("1"))
		r.b.update = failing(errors.New(strings.Repeat("very ", 50) + "broken: ü"))
		r.do(newEvent("Add Pod"))

		for _, line := range strings.Split(strings.TrimSpace(log.String()), "\n") {
			if n := utf8.RuneCountInString(line); n != 0 && n != 130 {
				t.Errorf("%d columns: %q", n, line)
			}
		}
		for _, want := range []string{
			"\n" + strings.Repeat(">", 130) + "\n*   NEW EVENT: Add Pod ", " #1 *\n", "EVENT HANDLERS:", "    * ipam ",
			"\n" + strings.Repeat("<", 130) + "\n*   FINALIZED EVENT: Add Pod ", "took 0s", "HANDLED BY:", "    * ipam: put k/1 ", "ipnet (ERROR: very", "broken: ü", "TRANSACTION #101: 0 operations",
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%q is not in\n%s", want, log.String())
			}
		}
	})
}
