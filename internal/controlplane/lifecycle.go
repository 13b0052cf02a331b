package controlplane

import "fmt"

// busy says that an endpoint is on its way to another status, in which SageMaker changes nothing else about it.
func (e endpoint) busy() bool {
	return e.Status == creating || e.Status == updating || e.Status == deleting
}

// begin starts an update. Why an earlier one was given up is of no interest any more.
func (e *endpoint) begin(next *deployment, now instant) {
	e.Status, e.Modified, e.FailureReason, e.Next = updating, now, "", next
}

func (e endpoint) stands() standing {
	return standing{name: e.Name, status: e.Status, reason: e.FailureReason, underway: e.Next != nil}
}

// advanced is the endpoint as it is now that pools have changed and time has passed: itself where it must still wait, nil where it is
// no more.
func (e endpoint) advanced(pool func(string) (ready int, exists bool), now instant) *endpoint {
	if e.Status == deleting {
		return nil
	}
	if e.Next == nil {
		return &e
	}
	waiting, reason := e.Next.waitsFor(pool)
	switch {
	case !waiting:
		reached := *e.Next // the state before is still read
		reached.Reweighs = false
		e.Status, e.Modified, e.FailureReason, e.Current, e.Next = inService, now, "", &reached, nil
	case now.Sub(e.Next.Started.Time) >= e.Next.timeout():
		return e.givenUp(reason, now)
	}
	return &e
}

// givenUp is the endpoint after its transition has failed: with what it served before, or of no use.
func (e endpoint) givenUp(reason string, now instant) *endpoint {
	e.Status, e.Modified, e.FailureReason = failed, now, reason
	if e.Current != nil {
		e.Status = inService
		e.FailureReason += fmt.Sprintf(" The update to endpoint configuration %s was given up; %s stays in service.", e.Next.ConfigName, e.Current.ConfigName)
	}
	e.Next = nil
	return &e
}

// lack says what was wrong with a pool that has no ready replica.
func lack(pool string, exists bool) string {
	if !exists {
		return "the configuration has no pool " + pool
	}
	return "no replica of the pool " + pool + " was ready"
}

// waitsFor says whether a variant has no replica that is ready, and which, in the words in which SageMaker says it.
func (d *deployment) waitsFor(pool func(string) (ready int, exists bool)) (waiting bool, reason string) {
	if d.Reweighs {
		return false, ""
	}
	for _, v := range d.all() {
		ready, exists := pool(v.Settings.ModelName)
		if ready > 0 || v.Settings.ModelName == "" { // its inference components wait for themselves
			continue
		}
		return true, fmt.Sprintf("The primary container for production variant %s did not pass the ping health check: %s within %.0f seconds.",
			v.Settings.VariantName, lack(v.Settings.ModelName, exists), d.timeout().Seconds())
	}
	return false, ""
}
